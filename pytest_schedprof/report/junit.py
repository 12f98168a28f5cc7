"""Properties of a test in JUnit's XML: its verdicts and its costs.

A name may occur several times, as JUnit allows. Figures are plain numbers, for programs that draw
them: shares as fractions of one, costs per task in the metric's base unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from sys import intern

import msgspec
from msgspec.structs import replace

from pytest_schedprof.judge.series import amounts_of, figures_of
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import StoredResult
from pytest_schedprof.report.changes import change_sentence
from pytest_schedprof.report.tables import dearest, hottest
from pytest_schedprof.report.terminal import HOT_FUNCTIONS_VERBOSE
from pytest_schedprof.store.records import encode

Property = tuple[str, str]

OWNERS_TOLD = 5


def properties_of(result: Result, directory: Path | None) -> Iterator[Property]:
    """Return all properties; without a directory, the place of the artifacts is missing.

    Names are interned: thousands of tests keep the same ones.
    """
    yield "schedprof_verdict", result.verdict.value
    if directory is not None:
        yield "schedprof_artifacts", str(directory)
    for limit in result.limits:
        yield "schedprof_limit", f"{limit.verdict.value}: {limit.limit}"
    for comparison in result.comparisons:
        for change in comparison.of(Outcome.REGRESSED):
            yield "schedprof_regressed", change_sentence(comparison, change)
    for text in result.troubles:
        yield "schedprof_trouble", text
    for backend in result.backends:
        yield from _of_backend(backend)


def _of_backend(backend: BackendResult) -> Iterator[Property]:
    start = f"schedprof_{backend.backend}"
    yield intern(f"{start}_tasks"), str(backend.window.tasks)
    for (metric, subject), amount in amounts_of(backend):
        if not subject:  # not of functions and owners, which are many
            yield intern(f"{start}_{metric}"), _figure(amount.value)
    for owner in backend.shares.owners[:OWNERS_TOLD] if backend.shares else ():
        yield intern(f"{start}_share_{owner.owner}"), _figure(owner.share.value)
    for name in backend.artifacts:
        yield intern(f"{start}_artifact"), intern(name)


def _figure(amount: float) -> str:
    return f"{amount:.6g}"


def pack(result: Result, directory: Path | None) -> str:
    """Return what the controller needs of a result, as JSON; the full record is on disk."""
    backends = tuple(_cut(backend) for backend in result.backends)
    cut = replace(result, backends=backends)
    return encode(StoredResult(str(directory or ""), cut, figures_of(result))).decode()


def _cut(backend: BackendResult) -> BackendResult:
    """Keep only the functions that the terminal can show."""
    most, shares, costs = HOT_FUNCTIONS_VERBOSE, backend.shares, backend.costs
    return replace(
        backend,
        shares=shares and replace(shares, functions=tuple(hottest(shares.functions, most))),
        costs=costs and replace(costs, functions=tuple(dearest(costs.functions, most)), folded=()),
    )


def unpack(packed: str) -> StoredResult:
    return msgspec.json.decode(packed, type=StoredResult)
