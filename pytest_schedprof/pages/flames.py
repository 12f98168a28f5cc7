"""The flame graphs of one backend on the page of a test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.model.backend import KnownBackends
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.pages.call_costs import read_calls
from pytest_schedprof.pages.flame import (
    Flame,
    counted_flame,
    flame,
    flame_of_others,
    over_time,
)
from pytest_schedprof.pages.others import Other
from pytest_schedprof.pages.reading import read_others, read_samples
from pytest_schedprof.pages.slices import slices_of
from pytest_schedprof.pages.tree import call_tree, trimmed

LEAST_OF_OTHERS = 0.002
"""Part of the samples of workers or the client from which on a call has a box of its own."""

LEAST_OF_CALLS = 0.0005
"""The same of what was traced or counted, where each call is known."""


@dataclass(frozen=True, slots=True)
class Flames:
    """Draws the recordings in the directory of a test."""

    directory: Path
    other: Other | None
    """The other side, to compare with."""
    known: KnownBackends

    def of(self, id: str, backend: BackendResult) -> tuple[tuple[Flame, ...], str]:
        """Return the flame graphs of a backend, and why the scheduler has none."""
        drawn, reason = self._sampled(id, backend) if backend.shares else self._called(id, backend)
        return (*drawn, *self._of_others(id, backend)), reason

    def _sampled(self, id: str, backend: BackendResult) -> tuple[list[Flame], str]:
        mine = read_samples(self.directory, backend)
        if not mine.stacks:
            return [], mine.problem or "no busy sample of the scheduler"
        before = self.other.backend(backend) if self.other else None
        theirs = self.other.samples(before) if self.other and before else None
        if self.other and before and theirs:
            tree = call_tree(mine.stacks, theirs)
            drawn = flame(id, tree, backend, before, self.other.name)
        else:
            tree = call_tree(mine.stacks)
            drawn = flame(id, tree, backend)
        return [over_time(drawn, slices_of(mine.profiles, tree))], ""

    def _called(self, id: str, backend: BackendResult) -> tuple[list[Flame], str]:
        """Return the flame graph of a backend that knows what calls cost; else nothing."""
        mine = read_calls(self.directory, backend, self.known)
        if not mine.stacks:
            return [], mine.problem
        before = self.other.backend(backend) if self.other else None
        theirs = self.other.calls(before, self.known) if self.other and before else None
        stacks = trimmed(mine.stacks, LEAST_OF_CALLS)
        if self.other and theirs:
            tree = call_tree(stacks, trimmed(theirs, LEAST_OF_CALLS))
            return [counted_flame(id, tree, (mine.unit, mine.cost), self.other.name)], ""
        return [counted_flame(id, call_tree(stacks), (mine.unit, mine.cost))], ""

    def _of_others(self, id: str, backend: BackendResult) -> Iterator[Flame]:
        for whose, stacks in read_others(self.directory, backend).items():
            tree = call_tree(trimmed(stacks, LEAST_OF_OTHERS))
            yield flame_of_others(f"{id}-{whose}", tree, whose)
