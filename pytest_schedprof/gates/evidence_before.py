"""Earlier evidence, as the baseline of relative limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_schedprof.analysis.run_amounts import EvidenceMeasurements
from pytest_schedprof.comparison.matching import OfRecord, another_kind, another_machine
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.metric import METRICS, TIME
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Estimate


@dataclass(frozen=True, slots=True)
class OfEvidence(OfRecord):
    """One kind of evidence of a test."""

    of: Evidence


@dataclass(frozen=True, slots=True)
class EvidenceBefore:
    """Evidence of one kind from an earlier run, or from another side."""

    after: OfRecord
    found: OfEvidence | None
    reason: str
    """Why nothing was found, if nothing was."""
    is_same_machine: bool = False

    def doubt(self, metric: str, subjects: Sequence[str] = ()) -> str:
        """Return why a limit on the metric of these cannot be judged; empty if it can."""
        if self.found is None:
            return self.reason
        if reason := another_kind(self.found, self.after):
            return reason
        is_of_machine = METRICS[metric].units is TIME and not self.is_same_machine
        if is_of_machine and (reason := another_machine(self.found, self.after)):
            return reason
        there = {each.subject for each in self.found.of.amounts if each.metric == metric}
        if not there:
            return f"the baseline has no figures of {metric!r}"
        lacking = sorted({*subjects} - there) if METRICS[metric].choices else []
        return f"the baseline has no {metric}({lacking[0]})" if lacking else ""

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the earlier estimate of a metric; 0 of a task that did not run."""
        assert self.found is not None
        return EvidenceMeasurements(self.found.of).of(metric, subject)

    def line(self, metric: str, function: Function) -> str:
        """Return the same name: each has a figure of its own."""
        return function


def evidence_of(result: Result, kind: str) -> Iterator[OfEvidence]:
    """Yield the evidence of a kind that has figures."""
    for each in result.evidence:
        if each.kind == kind and each.amounts:
            yield OfEvidence(result, each)
