"""All functions' and owners' shares of one backend's profiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import hypot

from pytest_schedprof.analysis.costs import Costs
from pytest_schedprof.analysis.estimate import (
    MIN_ROUNDS,
    degrees_of_freedom,
    effective_units,
    estimate,
)
from pytest_schedprof.analysis.owners import doubt_of_collector, owner_of
from pytest_schedprof.analysis.tally import Tally, tally_blocks, total
from pytest_schedprof.model.profile import Function, SampleProfile
from pytest_schedprof.model.result import FunctionShare, OwnerShare, SampledShares
from pytest_schedprof.model.verdict import Estimate

MIN_SAMPLES = 50
"""With fewer busy samples no bound means anything, whatever the formula says."""

NO_COSTS = Costs(())


@dataclass(frozen=True, slots=True)
class Shares:
    """Busy samples by unit, ready to answer for any function or owner."""

    units: tuple[Tally, ...]
    rounds: bool
    drift: float
    total: Tally
    untrusted: str = ""
    """Why nothing can be judged by the profiles; empty if it can."""
    is_held_back: bool = False
    """Whether the callbacks of the collector tell how long it ran."""
    whole: Costs = NO_COSTS
    """What the scheduler as a whole cost."""

    @property
    def cpu(self) -> Estimate:
        """CPU time of the scheduler per task, of which a function's share is its cost."""
        return self.whole.of("cpu", "")

    @property
    def inference(self) -> str:
        """The unit whose scatter gives the bounds."""
        return "rounds" if self.rounds else "blocks"

    @property
    def freedom(self) -> int:
        """Degrees of freedom of that scatter."""
        totals = [unit.busy for unit in self.units if unit.busy]
        return degrees_of_freedom(effective_units(totals), rounds=self.rounds) if totals else 0

    def seen(self, metric: str) -> Collection[Function]:
        """Every function that a busy sample holds."""
        return self.total.inclusive

    def of(self, metric: str, subject: str) -> Estimate:
        """A share, or the CPU time per task that it stands for."""
        if metric == "cpu":
            return self._cost(self.of("share", subject)) if subject else self.cpu
        if subject.startswith("@"):
            return self.of_owner(subject[1:])
        return self.of_function_itself(subject) if metric == "self" else self.of_function(subject)

    def doubt(self, metric: str, subject: str) -> str:
        """Samples that cannot tell, or too few, or no task to share the CPU time among."""
        seen = self.total.inclusive
        if doubt := self.untrusted or doubt_of_collector(subject, seen, self.is_held_back):
            return doubt
        if metric == "cpu" and not self.cpu.samples:
            return "the scheduler processed no task, and costs are per task"
        if not subject or self.total.busy >= MIN_SAMPLES:
            return ""
        return (
            f"{self.total.busy} busy samples, at least {MIN_SAMPLES} are needed: give the "
            "scheduler more work, raise the rate or the rounds"
        )

    def growth(self, metric: str, subject: str) -> Estimate:
        """Of the whole alone; a share is no amount."""
        return self.whole.growth(metric, subject)

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        """Samples at one scale are too few to tell how a function grows."""
        if subject:
            return f"samples tell the growth of {metric} as a whole only; counts tells functions'"
        return self.whole.doubt_of_growth(metric, subject)

    def sampled(self) -> SampledShares:
        """All shares for the record."""
        return SampledShares(
            busy_samples=self.total.busy,
            idle_samples=self.total.idle,
            empty_samples=self.total.empty,
            inference=self.inference,
            functions=self.functions(),
            owners=self.owners(),
            freedom=self.freedom,
            drift=0.0 if self.rounds else self.drift,
        )

    def _cost(self, share: Estimate) -> Estimate:
        """CPU time that was not the scheduler's is no part of what its functions share."""
        busy = self.total.busy / max(1, self.total.busy + self.total.idle + self.total.empty)
        cpu = self.cpu
        mine = replace(cpu, value=cpu.value * busy, low=cpu.low * busy, high=cpu.high * busy)
        return product(share, mine)

    def of_function(self, function: Function) -> Estimate:
        """Share of samples whose stack contains the function."""
        return self._estimate(lambda unit: unit.inclusive[function])

    def of_function_itself(self, function: Function) -> Estimate:
        """Share of samples whose stack ends in the function."""
        return self._estimate(lambda unit: unit.own[function])

    def of_owner(self, owner: str) -> Estimate:
        """Share of samples that belong to the owner."""
        return self._estimate(lambda unit: unit.owners[owner])

    def functions(self) -> tuple[FunctionShare, ...]:
        """Every function seen, the hottest first."""
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
        """Every owner seen, the hottest first."""
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
    """A share of a cost; errors of independent factors add up as squares do."""
    low = hypot((share.value - share.low) * cost.value, (cost.value - cost.low) * share.value)
    high = hypot((share.high - share.value) * cost.value, (cost.high - cost.value) * share.value)
    value = share.value * cost.value
    return Estimate(value, max(0.0, value - low), value + high, cost.samples, 0.0)


def shares_of(
    rounds: Sequence[Sequence[SampleProfile]], *, drift: float, whole: Costs = NO_COSTS
) -> Shares:
    """Shares over the profiles of each round; enough rounds become the units, else blocks."""
    units = [
        total(block for profile in each for block in tally_blocks(profile, 1)) for each in rounds
    ]
    profiles = [profile for each in rounds for profile in each]
    doubt = next((profile.doubt for profile in profiles if profile.doubt), "")
    is_held_back = all(profile.is_held_back for profile in profiles)
    has_rounds = sum(unit.busy > 0 for unit in units) >= MIN_ROUNDS
    if not has_rounds:
        units = [block for profile in profiles for block in tally_blocks(profile)]
    return Shares(tuple(units), has_rounds, drift, total(units), doubt, is_held_back, whole)
