"""Busy samples by function and owner, and their shares, with bounds from rounds or blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from math import hypot
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from pytest_schedprof.judge.costs import Costs
from pytest_schedprof.judge.estimate import (
    MIN_ROUNDS,
    degrees_of_freedom,
    effective_units,
    estimate,
)
from pytest_schedprof.judge.owners import (
    COLLECTING,
    IDLE,
    NOT_SCHEDULER,
    doubt_of_collector,
    owner_of,
    owner_of_stack,
    undivided_subjects,
    without_who_was_interrupted,
)
from pytest_schedprof.model.limit import MIN_SAMPLES, Estimate
from pytest_schedprof.model.metric import CPU, SELF, SHARE
from pytest_schedprof.model.profile import Function, SampleProfile, Stack, compile_pattern
from pytest_schedprof.model.result import FunctionShare, OwnerShare, SampledShares

MICROSECONDS = 1e6


class BusyTime(Struct, frozen=True):
    """What all busy samples stand for, in microseconds per task."""

    cpu: float
    wall: float
    """By the clock; 0 where samples were taken at steps of CPU time, or where nobody knows."""

    @property
    def waited(self) -> float:
        """Time that threads waited for a processor."""
        return max(0.0, self.wall - self.cpu)

    @property
    def waited_part(self) -> float:
        """The same as a part of the clock's time."""
        return self.waited / self.wall if self.wall else 0.0

    def bounds(self, share: Estimate) -> tuple[float, float]:
        """Return the least and the most CPU time of what has that share of the samples."""
        if not self.waited:
            return share.low * self.cpu, share.high * self.cpu
        low = max(0.0, share.low * self.wall - self.waited)
        return low, min(share.high * self.wall, self.cpu)

    def widened(self, share: Estimate, cost: Estimate) -> Estimate:
        """Return a cost whose bounds hold wherever it was that the threads waited."""
        if not self.waited:
            return cost
        low, high = self.bounds(share)
        return replace(cost, low=min(cost.low, low), high=max(cost.high, high))


def wall_of(samples: int, seconds: float, tasks: int) -> float:
    """Return the microseconds per task that samples stand for."""
    return samples * seconds * MICROSECONDS / max(1, tasks)


UNDIVIDED_MATTERS = 0.01
"""Samples that may be the scheduler's or not, as a fraction of its busy samples, from which on no
limit on their functions is judged."""

NO_COSTS = Costs(())


class Shares(Struct, frozen=True):
    """Busy samples by unit, from which the share of any function or owner is estimated."""

    units: tuple[Tally, ...]
    rounds: bool
    drift: float
    total: Tally
    untrusted: str = ""
    """Why the profiles cannot judge any limit; empty if they can."""
    is_held_back: bool = False
    """Whether the samples of the collector's callbacks stand for the time that it ran."""
    whole: Costs = NO_COSTS
    """Costs of the scheduler as a whole."""
    undivided: Mapping[Function, int] = field(default_factory=dict)
    """Samples that may be the scheduler's or not, by function and by `@owner`."""
    is_shared: bool = False
    """Whether workers and clients ran in the scheduler's process."""
    sample_seconds: float = 0.0
    """Time by the clock that each sample stands for; 0 of samples at steps of CPU time."""

    @property
    def cpu(self) -> Estimate:
        """CPU time of the scheduler per task; times a share it is the cost of a function."""
        return self.whole.of(CPU, "")

    @property
    def inference(self) -> str:
        """Name of the unit whose scatter gives the bounds."""
        return "rounds" if self.rounds else "blocks"

    @property
    def freedom(self) -> int:
        """Degrees of freedom of that scatter."""
        totals = [unit.busy for unit in self.units if unit.busy]
        return degrees_of_freedom(effective_units(totals), rounds=self.rounds) if totals else 0

    def seen(self, metric: str) -> Collection[Function]:
        return self.total.inclusive

    def of(self, metric: str, subject: str) -> Estimate:
        if metric == CPU:
            return self._cost(self.of(SHARE, subject)) if subject else self.cpu
        if subject.startswith("@"):
            return self.of_owner(subject[1:])
        return self.of_function_itself(subject) if metric == SELF else self.of_function(subject)

    def doubt(self, metric: str, subject: str) -> str:
        seen = self.total.inclusive
        if doubt := self.untrusted or doubt_of_collector(subject, seen, self.is_held_back):
            return doubt
        if doubt := self._doubt_of_undivided(subject):
            return doubt
        if metric == CPU and not self.cpu.samples:
            return "the scheduler processed no task, and costs are per task"
        if not subject or self.total.busy >= MIN_SAMPLES:
            return ""
        return (
            f"{self.total.busy} busy samples, at least {MIN_SAMPLES} are needed: give the "
            "scheduler more work, raise the rate or the rounds"
        )

    def _doubt_of_undivided(self, subject: str) -> str:
        """Return that nobody knows whose samples these are, if they are many."""
        matches = compile_pattern(subject).fullmatch
        most = max((n for name, n in self.undivided.items() if matches(name)), default=0)
        if most <= UNDIVIDED_MATTERS * self.total.busy:
            return ""
        samples = "1 sample" if most == 1 else f"{most} samples"
        return (
            f"in the test's own process {samples} of {subject} may be a worker's or the client's: "
            "use the fixture schedprof_scheduler"
        )

    def growth(self, metric: str, subject: str) -> Estimate:
        """Return the growth of the whole; a share is a ratio and does not grow."""
        return self.whole.growth(metric, subject)

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        if subject:
            return (
                f"samples tell the growth of {metric} as a whole only; for functions limit the "
                "growth of calls or bytecodes"
            )
        return self.whole.doubt_of_growth(metric, subject)

    def sampled(self) -> SampledShares:
        return SampledShares(
            busy_samples=self.total.busy,
            idle_samples=self.total.idle,
            empty_samples=self.total.empty,
            inference=self.inference,
            functions=self.functions(),
            owners=self.owners(),
            freedom=self.freedom,
            is_shared=self.is_shared,
            waiting_samples=self.total.waiting,
            sample_seconds=self.sample_seconds,
        )

    def _cost(self, share: Estimate) -> Estimate:
        """Multiply a share with the CPU time of busy samples; the rest was not the scheduler's."""
        busy, cpu = self.total.busy_part, self.cpu
        mine = replace(cpu, value=cpu.value * busy, low=cpu.low * busy, high=cpu.high * busy)
        wall = wall_of(self.total.busy, self.sample_seconds, cpu.samples) / MICROSECONDS
        return BusyTime(mine.high, wall).widened(share, product(share, mine))

    def of_function(self, function: Function) -> Estimate:
        """Return the share of samples whose stack contains the function."""
        return self._estimate(lambda unit: unit.inclusive[function])

    def of_function_itself(self, function: Function) -> Estimate:
        """Return the share of samples whose stack ends in the function."""
        return self._estimate(lambda unit: unit.own[function])

    def of_owner(self, owner: str) -> Estimate:
        return self._estimate(lambda unit: unit.owners[owner])

    def functions(self) -> tuple[FunctionShare, ...]:
        """Return the shares of all functions, the hottest first."""
        names = sorted(
            self.total.inclusive,
            key=lambda name: (-self.total.inclusive[name], -self.total.own[name], name),
        )
        return tuple(
            FunctionShare(
                function=name,
                owner=owner_of(name),
                share=self.of_function(name),
                self_share=self.of_function_itself(name),
            )
            for name in names
        )

    def owners(self) -> tuple[OwnerShare, ...]:
        """Return the shares of all owners, the hottest first."""
        names = sorted(self.total.owners, key=lambda name: (-self.total.owners[name], name))
        return tuple(OwnerShare(owner=name, share=self.of_owner(name)) for name in names)

    def _estimate(self, count: Callable[[Tally], int]) -> Estimate:
        return estimate(
            [count(unit) for unit in self.units],
            [unit.busy for unit in self.units],
            rounds=self.rounds,
            drift=self.drift,
        )


def product(share: Estimate, cost: Estimate) -> Estimate:
    """Multiply a share with a cost; relative errors of independent factors add in quadrature."""
    low = hypot((share.value - share.low) * cost.value, (cost.value - cost.low) * share.value)
    high = hypot((share.high - share.value) * cost.value, (cost.high - cost.value) * share.value)
    value = share.value * cost.value
    return Estimate(value, max(0.0, value - low), value + high, cost.samples, 0.0)


def shares_of(
    rounds: Sequence[Sequence[SampleProfile]], *, drift: float, whole: Costs = NO_COSTS
) -> Shares:
    """Return the shares of the profiles of all rounds.

    The units are rounds if there are enough of them, else blocks of each window.
    """
    units = [
        total(block for profile in one_round for block in tally_blocks(profile, 1))
        for one_round in rounds
    ]
    profiles = [profile for one_round in rounds for profile in one_round]
    doubt = next((profile.doubt for profile in profiles if profile.doubt), "")
    is_held_back = all(profile.is_held_back for profile in profiles)
    has_rounds = sum(unit.busy > 0 for unit in units) >= MIN_ROUNDS
    if not has_rounds:
        units = [block for profile in profiles for block in tally_blocks(profile)]
    return Shares(
        tuple(units),
        has_rounds,
        drift,
        total(units),
        doubt,
        is_held_back,
        whole,
        undivided=sum(map(undivided, profiles), Counter()),
        is_shared=any(profile.is_shared for profile in profiles),
        sample_seconds=max((profile.sample_seconds for profile in profiles), default=0.0),
    )


MIN_BLOCK_SAMPLES = 20
"""Fewest samples of a block: with fewer, blocks do not show how shares scatter."""

MAX_BLOCKS = 20
"""Most blocks of a round: more would be shorter than the noise they show (docs/statistics.md)."""


class Tally(Struct):
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

    @property
    def busy_part(self) -> float:
        """The part of the samples that stand for CPU time that are busy; 0 without samples."""
        return self.busy / max(1, self.busy + self.idle + self.empty - self.waiting)


def total(tallies: Iterable[Tally]) -> Tally:
    result = Tally()
    for tally in tallies:
        result.busy += tally.busy
        result.idle += tally.idle
        result.empty += tally.empty
        result.waiting += tally.waiting
        result.inclusive.update(tally.inclusive)
        result.own.update(tally.own)
        result.owners.update(tally.owners)
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
    busy = [[i for i in thread if kept[i]] for thread in profile.threads]
    count = block_count or blocks_for(sum(map(len, busy)))
    blocks = []
    for k in range(count):
        borders = [(len(samples) * k // count, len(samples) * (k + 1) // count) for samples in busy]
        parts = [samples[start:stop] for samples, (start, stop) in zip(busy, borders, strict=True)]
        blocks.append(_tally(kept, parts))
    blocks[0].idle = sum(len(thread) for thread in profile.threads) - sum(map(len, busy))
    blocks[0].empty = profile.empty_samples
    blocks[0].waiting = 0 if profile.is_of_cpu else _waiting(profile)
    return blocks


def _waiting(profile: SampleProfile) -> int:
    waits = [owner_of_stack(stack, profile.is_shared) == IDLE for stack in profile.stacks]
    return sum(waits[index] for thread in profile.threads for index in thread)


def undivided(profile: SampleProfile) -> Counter[Function]:
    """Count samples that may be the scheduler's or not, by function and by `@owner`."""
    counts: Counter[Function] = Counter()
    if not profile.is_shared:
        return counts
    for index, count in Counter(chain.from_iterable(profile.threads)).items():
        for subject in undivided_subjects(profile.stacks[index]):
            counts[subject] += count
    return counts


def blocks_for(busy_samples: int) -> int:
    """Return the number of blocks for a number of samples."""
    return max(1, min(MAX_BLOCKS, busy_samples // MIN_BLOCK_SAMPLES))


def _tally(kept: Sequence[BusyStack | None], parts: Iterable[list[int]]) -> Tally:
    tally = Tally()
    for index, count in Counter(chain.from_iterable(parts)).items():
        if busy := kept[index]:
            tally.busy += count
            tally.owners[busy.owner] += count
            tally.own[busy.stack[-1]] += count
            for function in set(busy.stack):  # a set: recursion counts once
                tally.inclusive[function] += count
    return tally
