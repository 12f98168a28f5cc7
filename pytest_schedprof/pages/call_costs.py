"""What calls cost by a backend that knows callers and callees: instructions, or time in a trace."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_schedprof.analysis.tally import busy_stack
from pytest_schedprof.errors import FormatError, SchedprofError
from pytest_schedprof.formats.callgrind import is_python, read_callgrind
from pytest_schedprof.formats.chrometrace import mended, read_times
from pytest_schedprof.formats.unfolding import unfolded
from pytest_schedprof.model.backend import CALLGRIND, TRACE, KnownBackends, artifacts_of, kind_of
from pytest_schedprof.model.metric import INSTRUCTIONS
from pytest_schedprof.model.profile import Stack
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.pages.naming import Names
from pytest_schedprof.pages.reading import reason_of
from pytest_schedprof.storage.reading import inside, read_kept

UNNAMED = "the scheduler's Python does not name its functions, as Python 3.12 and newer do"

GZIP = b"\x1f\x8b"
NANOSECONDS = 1000
"""In a microsecond."""


@dataclass(frozen=True, slots=True)
class CallCosts:
    """Costs of stacks per task, or why there are none."""

    stacks: Counter[Stack] = field(default_factory=Counter)
    unit: str = INSTRUCTIONS
    cost: float = 1
    """What one of each stack's amount stands for, in the unit."""
    problem: str = ""


def read_calls(directory: Path, backend: BackendResult, known: KnownBackends) -> CallCosts:
    """Read all files of one backend with costs of calls."""
    artifacts = artifacts_of(backend.backend, known)
    kinds = {name: kind_of(name, artifacts) for name in backend.artifacts}
    graphs, traces = (
        [inside_of for inside_of, kind in kinds.items() if kind is wanted]
        for wanted in (CALLGRIND, TRACE)
    )
    try:
        if graphs:
            return _per_task(_instructions(directory, graphs), backend, CallCosts(problem=UNNAMED))
        found = _nanoseconds(directory, traces, backend)
        return _per_task(found, backend, CallCosts(unit="us", cost=1 / NANOSECONDS))
    except SchedprofError as error:
        return CallCosts(problem=reason_of(error))


def _per_task(
    stacks: Iterator[Mapping[Stack, float]], backend: BackendResult, empty: CallCosts
) -> CallCosts:
    """Return the sum of all files, divided by the tasks of the window."""
    sums: Counter[Stack] = Counter()
    for each in stacks:
        sums.update(each)
    tasks = max(1, backend.window.tasks)
    found = {stack: round(amount / tasks) for stack, amount in sums.items()}
    kept = Counter({stack: amount for stack, amount in found.items() if amount > 0})
    return CallCosts(kept, empty.unit, empty.cost, "" if kept else empty.problem)


def _instructions(directory: Path, files: list[str]) -> Iterator[Mapping[Stack, float]]:
    """Yield the instructions of each stack, without what ran for hollow workers."""
    for file in files:
        graph = read_callgrind(read_kept(inside(directory, file)))
        if any(map(is_python, graph.own)):
            yield {stack: cost for stack, cost in unfolded(graph).items() if busy_stack(stack)}


def _nanoseconds(
    directory: Path, files: list[str], backend: BackendResult
) -> Iterator[Mapping[Stack, float]]:
    """Yield the time of each stack in which the scheduler did not wait."""
    functions = backend.costs.functions if backend.costs else ()
    names = Names(each.function for each in functions)
    for file in files:
        times = read_times(mended(_unpacked(read_kept(inside(directory, file)))), names)
        yield {stack: time * NANOSECONDS for stack, time in times.items() if busy_stack(stack)}


def _unpacked(content: bytes) -> bytes:
    try:
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"schedprof: a trace cannot be decompressed: {error}") from error
