"""Counts per function and owner, for each unit of inference: a round or a block of a round."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pytest_schedprof.analysis.owners import (
    COLLECTING,
    NOT_SCHEDULER,
    owner_of_stack,
    without_who_was_interrupted,
)
from pytest_schedprof.model.profile import Function, SampleProfile, Stack

MIN_BLOCK_SAMPLES = 20
"""Shorter blocks hold too few samples to show how shares scatter."""

MAX_BLOCKS = 20
"""More blocks would be shorter than the noise they are to show (see docs/shares.md)."""


@dataclass(slots=True)
class Tally:
    """What one unit holds; only busy samples of the scheduler count for functions."""

    busy: int = 0
    idle: int = 0
    """Samples of no scheduler: idle, importing, or of the profiler, a worker or the client."""
    empty: int = 0
    inclusive: Counter[Function] = field(default_factory=Counter)
    own: Counter[Function] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Take in another unit's counts."""
        self.busy += other.busy
        self.idle += other.idle
        self.empty += other.empty
        for mine, theirs in (
            (self.inclusive, other.inclusive),
            (self.own, other.own),
            (self.owners, other.owners),
        ):
            for key, count in theirs.items():
                mine[key] += count


def total(tallies: Iterable[Tally]) -> Tally:
    """All units in one."""
    result = Tally()
    for tally in tallies:
        result.add(tally)
    return result


def tally_blocks(profile: SampleProfile, block_count: int | None = None) -> list[Tally]:
    """The busy samples of a profile in consecutive blocks of equal length.

    Samples carry no clock, but a thread's are in order: the k-th block takes the k-th part
    of each thread's busy samples.
    """
    owners = [owner_of_stack(stack) for stack in profile.stacks]
    stacks = [
        without_who_was_interrupted(stack) if owner == COLLECTING else stack
        for stack, owner in zip(profile.stacks, owners, strict=True)
    ]
    busy = [
        [i for i in thread.samples if owners[i] not in NOT_SCHEDULER] for thread in profile.threads
    ]
    count = block_count or blocks_for(sum(map(len, busy)))
    blocks = [
        _tally(stacks, owners, [_part(samples, k, count) for samples in busy]) for k in range(count)
    ]
    blocks[0].idle = sum(len(thread.samples) for thread in profile.threads) - sum(map(len, busy))
    blocks[0].empty = profile.empty_samples
    return blocks


def blocks_for(busy_samples: int) -> int:
    """Into how many blocks so many samples are cut."""
    return max(1, min(MAX_BLOCKS, busy_samples // MIN_BLOCK_SAMPLES))


def _part(samples: list[int], index: int, count: int) -> list[int]:
    return samples[len(samples) * index // count : len(samples) * (index + 1) // count]


def _tally(stacks: Sequence[Stack], owners: Sequence[str], parts: Iterable[list[int]]) -> Tally:
    tally = Tally()
    seen: Counter[int] = Counter()
    for part in parts:
        seen.update(part)
    for index, count in seen.items():
        stack = stacks[index]
        tally.busy += count
        tally.owners[owners[index]] += count
        tally.own[stack[-1]] += count
        for function in set(stack):  # a set: recursion counts once
            tally.inclusive[function] += count
    return tally


def ordered_samples(indexes: Iterable[int]) -> array[int]:
    """Stack indexes in the compact form that a thread keeps."""
    return array("q", indexes)
