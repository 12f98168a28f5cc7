"""Estimates of what evidence measured: the mean amount of a run of the body, with bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pytest_schedprof.analysis.costs import Costs, Unit
from pytest_schedprof.model.evidence import Evidence, RunAmounts
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.verdict import Estimate


@dataclass(frozen=True, slots=True)
class EvidenceMeasurements:
    """Measurements of one kind of evidence, for its limits.

    A run of the body counts as one: its amount is already of the whole run, or a mean.
    """

    evidence: Evidence

    def seen(self, metric: str) -> Collection[str]:
        """Return the measures, tasks or phases that there are amounts of."""
        return [each.subject for each in self._of(metric) if each.subject]

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the mean over runs, of those at the largest scale."""
        units = self._units(metric, subject)
        largest = max((unit.scale for unit in units), default=0)
        return Costs([unit for unit in units if unit.scale == largest]).of(metric, "")

    def growth(self, metric: str, subject: str) -> Estimate:
        """Return the exponent with which the amount grows with the scale of the test."""
        return Costs(self._units(metric, subject)).growth(metric, "")

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        """Return why the growth cannot be judged."""
        if any(not each.scales for each in self._of(metric)):
            return f"growth needs a test that runs at two scales or more, and a {metric} of each"
        return Costs(self._units(metric, subject)).doubt_of_growth(metric, "")

    def doubt(self, metric: str, subject: str) -> str:
        """Return why the metric cannot be judged: evidence is missing, or has not all figures."""
        if self.evidence.missing:
            return f"no evidence {self.evidence.kind!r}: {self.evidence.missing}"
        if self._matching(metric, subject):
            return ""
        return "; ".join(self.evidence.notes) or f"evidence {self.evidence.kind!r} has no figure"

    def _of(self, metric: str) -> list[RunAmounts]:
        return [each for each in self.evidence.amounts if each.metric == metric]

    def _matching(self, metric: str, pattern: str) -> list[RunAmounts]:
        matches = compile_pattern(pattern).fullmatch
        return [each for each in self._of(metric) if matches(each.subject)]

    def _units(self, metric: str, subject: str) -> list[Unit]:
        found = [each for each in self._of(metric) if each.subject == subject]
        return [_unit(each, number) for each in found for number in range(len(each.amounts))]


def _unit(found: RunAmounts, number: int) -> Unit:
    whole: Mapping[str, float] = {found.metric: found.amounts[number]}
    return Unit(1, {}, whole, scale=found.scales[number] if found.scales else 0)
