"""Counts of busy samples by function and owner, for each unit of inference: a round or a block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from pytest_schedprof.judge.owners import (
    COLLECTING,
    IDLE,
    NOT_SCHEDULER,
    owner_of_stack,
    undivided_subjects,
    without_who_was_interrupted,
)
from pytest_schedprof.model.profile import Function, SampleProfile, SpanName, Stack

MIN_BLOCK_SAMPLES = 20
"""Fewest samples of a block: with fewer, blocks do not show how shares scatter."""

MAX_BLOCKS = 20
"""Most blocks of a round: more would be shorter than the noise they show (docs/statistics.md)."""


@dataclass(slots=True)
class Tally:
    """Counts of one unit. Functions and owners are counted in busy samples only."""

    busy: int = 0
    idle: int = 0
    """Samples that are not the scheduler's: idle, importing, profiler, worker or client."""
    empty: int = 0
    """Samples without a stack."""
    waiting: int = 0
    """Idle samples that stand for no CPU time: a profiler by the clock saw a thread that waits."""
    inclusive: Counter[Function] = field(default_factory=Counter)
    own: Counter[Function] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)
    spans: Counter[SpanName] = field(default_factory=Counter)

    @property
    def busy_part(self) -> float:
        """The part of the samples that stand for CPU time that are busy; 0 without samples."""
        return self.busy / max(1, self.of_cpu)

    @property
    def of_cpu(self) -> int:
        return self.busy + self.idle + self.empty - self.waiting

    def add(self, other: Tally) -> None:
        self.busy += other.busy
        self.idle += other.idle
        self.empty += other.empty
        self.waiting += other.waiting
        for mine, theirs in (
            (self.inclusive, other.inclusive),
            (self.own, other.own),
            (self.owners, other.owners),
        ):
            for key, count in theirs.items():
                mine[key] += count
        self.spans.update(other.spans)


def total(tallies: Iterable[Tally]) -> Tally:
    result = Tally()
    for tally in tallies:
        result.add(tally)
    return result


class BusyStack(NamedTuple):
    """A stack of a busy sample: what shares are computed from."""

    owner: str
    stack: Stack


def busy_stack(stack: Stack, is_shared: bool = False) -> BusyStack | None:
    """Return what a stack counts as, or None if the sample is not a busy one of the scheduler.

    A sample of the garbage collector counts without the functions that it interrupted.
    """
    owner = owner_of_stack(stack, is_shared)
    if owner in NOT_SCHEDULER:
        return None
    return BusyStack(owner, without_who_was_interrupted(stack) if owner == COLLECTING else stack)


def tally_blocks(profile: SampleProfile, block_count: int | None = None) -> list[Tally]:
    """Count the busy samples of a profile in consecutive blocks of equal length.

    Samples have no timestamps, but those of a thread are in order: the k-th block takes the k-th
    part of each thread's busy samples.
    """
    kept = [busy_stack(stack, profile.is_shared) for stack in profile.stacks]
    busy = [[i for i in thread.samples if kept[i]] for thread in profile.threads]
    count = block_count or blocks_for(sum(map(len, busy)))
    blocks = []
    for k in range(count):
        borders = [(len(samples) * k // count, len(samples) * (k + 1) // count) for samples in busy]
        parts = [samples[start:stop] for samples, (start, stop) in zip(busy, borders, strict=True)]
        blocks.append(_tally(kept, parts, profile.whose))
    blocks[0].idle = sum(len(thread.samples) for thread in profile.threads) - sum(map(len, busy))
    blocks[0].empty = profile.empty_samples
    blocks[0].waiting = 0 if profile.is_of_cpu else _waiting(profile)
    return blocks


def _waiting(profile: SampleProfile) -> int:
    waits = [owner_of_stack(stack, profile.is_shared) == IDLE for stack in profile.stacks]
    return sum(waits[index] for thread in profile.threads for index in thread.samples)


def undivided(profile: SampleProfile) -> Counter[Function]:
    """Count samples that may be the scheduler's or not, by function and by `@owner`."""
    counts: Counter[Function] = Counter()
    if not profile.is_shared:
        return counts
    kept = [undivided_subjects(stack) for stack in profile.stacks]
    for thread in profile.threads:
        for index, count in Counter(thread.samples).items():
            for subject in kept[index]:
                counts[subject] += count
    return counts


def blocks_for(busy_samples: int) -> int:
    """Return the number of blocks for a number of samples."""
    return max(1, min(MAX_BLOCKS, busy_samples // MIN_BLOCK_SAMPLES))


def _tally(
    kept: Sequence[BusyStack | None], parts: Iterable[list[int]], whose: Sequence[SpanName]
) -> Tally:
    tally = Tally()
    for index, count in Counter(chain.from_iterable(parts)).items():
        if busy := kept[index]:
            tally.busy += count
            tally.owners[busy.owner] += count
            tally.own[busy.stack[-1]] += count
            if whose:
                tally.spans[whose[index]] += count
            for function in set(busy.stack):  # a set: recursion counts once
                tally.inclusive[function] += count
    return tally
