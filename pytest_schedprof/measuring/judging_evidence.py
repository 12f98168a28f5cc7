"""Judge limits on evidence, once it was gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_schedprof.analysis.run_amounts import EvidenceMeasurements
from pytest_schedprof.errors import LimitError, SchedprofError
from pytest_schedprof.gates.judge import NO_BASELINE, judge
from pytest_schedprof.gates.named import choices
from pytest_schedprof.measuring.assessment import Earlier
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.verdict import LimitResult, Verdict


def judge_evidence(
    limits: Sequence[Limit], gathered: Sequence[Evidence], earlier: Earlier
) -> tuple[tuple[Evidence, ...], list[SchedprofError]]:
    """Return evidence with the results of its limits, and errors of limits that name nothing."""
    judged: list[Evidence] = []
    errors: list[SchedprofError] = []
    for evidence in gathered:
        results = []
        for limit in limits:
            if limit.evidence == evidence.kind:
                try:
                    results.append(_judge(limit, evidence, earlier))
                except LimitError as error:
                    errors.append(error)
        judged.append(replace(evidence, limits=tuple(results)))
    return tuple(judged), errors


def _judge(limit: Limit, evidence: Evidence, earlier: Earlier) -> LimitResult:
    measurements = EvidenceMeasurements(evidence)
    if evidence.missing:
        doubt = measurements.doubt(limit.measured, limit.pattern)
        return LimitResult(str(limit), Verdict.INCONCLUSIVE, (), doubt, parsed=limit)
    known = choices(limit.measured, limit.pattern)
    reference = earlier.reference
    before = reference.evidence_before(earlier.test, evidence.kind) if reference else NO_BASELINE
    return judge(limit, measurements, known, before)
