"""All functions' and owners' shares of one backend's profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_schedprof.analysis.estimate import MIN_ROUNDS, estimate
from pytest_schedprof.analysis.owners import owner_of
from pytest_schedprof.analysis.tally import Tally, tally_blocks, total
from pytest_schedprof.model.profile import Function, Profile
from pytest_schedprof.model.result import FunctionShare, OwnerShare
from pytest_schedprof.model.verdict import Estimate


@dataclass(frozen=True, slots=True)
class Shares:
    """Busy samples by unit, ready to answer for any function or owner."""

    units: tuple[Tally, ...]
    rounds: bool
    drift: float
    total: Tally

    @property
    def inference(self) -> str:
        """The unit whose scatter gives the bounds."""
        return "rounds" if self.rounds else "blocks"

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


def shares_of(rounds: Sequence[Sequence[Profile]], *, drift: float) -> Shares:
    """Shares over the profiles of each round; enough rounds become the units, else blocks."""
    units = [
        total(block for profile in each for block in tally_blocks(profile, 1)) for each in rounds
    ]
    if sum(unit.busy > 0 for unit in units) >= MIN_ROUNDS:
        return Shares(tuple(units), True, drift, total(units))
    profiles = [profile for each in rounds for profile in each]
    units = [block for profile in profiles for block in tally_blocks(profile)]
    return Shares(tuple(units), False, drift, total(units))
