"""Keep the sources of the functions that a test measured, for the explanation of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pytest_schedprof.agent import sources
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.measuring.sides import Side
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.modules import is_of_library
from pytest_schedprof.model.profile import Function
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.sources import add_sources, read_sources

NEGLIGIBLE = 0.001
"""Share of a function below which its source is not kept."""


def keep_sources(run: Path, sides: Iterable[Side]) -> None:
    """Ask each side's scheduler for sources that the run does not have yet.

    The figures are right without them, so a scheduler that is lost, or a full disk, is no error.
    """
    every = list(sides)
    names = sorted({name for side in every for name in _functions(side)})
    for side in every:
        with suppress(SchedprofError):
            _keep(run, side, names)


def _keep(run: Path, side: Side, names: list[Function]) -> None:
    code = side.environment.code
    known = read_sources(Folder(str(run)), code)
    missing = [name for name in names if name not in known]
    if not (code and missing):
        return
    found = side.recorder.control.call(sources.sources_of, missing)
    add_sources(run, code, {name: Source(*found.get(name, ("", 0, ""))) for name in missing})


def _functions(side: Side) -> Iterator[Function]:
    """Yield the functions of a side's figures; Python's own library explains nothing."""
    for backend in side.assessment.backends:
        costs, shares = backend.costs, backend.shares
        named = [each.function for each in (costs.functions if costs else ())]
        named += [
            each.function
            for each in (shares.functions if shares else ())
            if each.share.value >= NEGLIGIBLE
        ]
        yield from (name for name in named if not is_of_library(name.partition(":")[0]))
