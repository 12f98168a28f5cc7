"""The pictures on the page of a test: flame graphs and decisions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pytest_schedprof.judge.others import Other
from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.comparison import Difference, Parting
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.report.decisions import Picture
from pytest_schedprof.report.flames import Flame, Flames
from pytest_schedprof.store.runs import decided_in


class Drawn(NamedTuple):
    """What the files of one backend hold, as pictures."""

    flames: tuple[Flame, ...]
    no_flame: str
    """Why a backend with samples has no flame graph; else empty."""
    decisions: Picture | None


def drawn(
    result: Result, directory: Path, other: Other | None = None, known: KnownBackends = NO_BACKENDS
) -> list[Drawn]:
    """Return the pictures of each backend of a test.

    Args:
        result: the test's record.
        directory: of its files.
        other: the same test on another side, to compare its samples with.
        known: facts about backends, which tell what their files hold.
    """
    partings = {
        comparison.backend: comparison.parting
        for comparison in result.comparisons
        if comparison.parting
    }
    drawing = Flames(directory, other, known)
    return [
        Drawn(
            *drawing.of(f"flame-{number}", backend),
            _decisions(backend, directory, other, partings.get(backend.backend)),
        )
        for number, backend in enumerate(result.backends)
    ]


def _decisions(
    backend: BackendResult, directory: Path, other: Other | None, parting: Parting | None
) -> Picture | None:
    """Return the round in which both sides part, or else the first one."""
    mine = decided_in(directory, (backend,))
    if not (backend.hashes and mine):
        return None
    number = parting.round - 1 if parting else 0
    before = other.backend(backend) if other else None
    theirs = decided_in(other.directory, (before,)) if other and before else []
    # The decisions must be those that the comparison was about, and others than now.
    if (
        other
        and parting
        and parting.what is not Difference.NOTHING
        and number < min(len(mine), len(theirs))
        and theirs[number].hash == parting.hashes[0]
    ):
        sides = [(f"before: {other.name}", theirs[number]), ("now", mine[number])]
        return Picture(sides, parting)
    return Picture([("", mine[0])], None)
