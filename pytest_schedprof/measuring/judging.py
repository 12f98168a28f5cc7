"""Judge one profiled test: its limits, and how it compares with a baseline or with another side.

`judge` reads from left to right: `assess` reads what each side recorded and judges the limits, the
reference compares, and the `Judgement` says why a test that passed must fail after all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_schedprof.errors import LimitError, SchedprofError, printable
from pytest_schedprof.judge.limits import choices
from pytest_schedprof.judge.parting import Reader, with_first_difference
from pytest_schedprof.judge.phases import EvidenceMeasurements
from pytest_schedprof.judge.reference import InTurns
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.measuring.assessment import (
    NOT_ASSESSED,
    Assessment,
    Earlier,
    assess,
    keep_record,
)
from pytest_schedprof.measuring.plan import Plan
from pytest_schedprof.measuring.sides import Side, Sides
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Limit, LimitResult, Verdict
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.report.changes import regressions, undecided
from pytest_schedprof.report.tables import describe
from pytest_schedprof.store.run_directory import AGAINST, NULL, make_directory
from pytest_schedprof.store.runs import decided_in, decided_in_run


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
    before = reference.evidence_before(earlier.test, evidence.kind) if reference else None
    return judge(limit, measurements, known, before)


NOTHING_SEARCHED = (
    "schedprof: the scheduler finished no task under this seed, so nothing was searched: let the "
    "test submit some and wait for them, or leave out the seeds"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What profiling found of one test."""

    baseline: str
    """Name of what the test is compared with; empty if it is compared with nothing."""
    is_strict: bool
    directory: Path | None = None
    assessment: Assessment = NOT_ASSESSED
    evidence: tuple[Evidence, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    null: tuple[Comparison, ...] = ()

    def complaint(self) -> str | None:
        """Say why a test that passed must fail: trouble, or limits; None if it need not fail."""
        lines = [*self.assessment.troubles, *self.broken(), *self.regressed()]
        return printable("\n".join(lines)) or None

    def broken(self) -> list[str]:
        """Return a line for each limit that makes the test fail."""
        failing = {Verdict.FAIL, *([Verdict.INCONCLUSIVE] if self.is_strict else [])}
        sources: Iterable[BackendResult | Evidence] = (*self.assessment.backends, *self.evidence)
        return [
            f"schedprof: limit {'broken' if limit.verdict is Verdict.FAIL else 'inconclusive'}: "
            f"{describe(limit)}; see {self._place(result.artifacts)}"
            for result in sources
            for limit in result.limits
            if limit.verdict in failing
        ]

    def regressed(self) -> list[str]:
        """Return a line for each backend by which the test costs more than in the baseline."""
        binding = [each for each in self.comparisons if each.is_binding]
        return [line for each in binding if (line := self._line(each))]

    def _line(self, comparison: Comparison) -> str:
        """Say what regressed or, if the run is strict, what is undecided."""
        if told := regressions(comparison):
            what = "regressed"
        elif self.is_strict and (told := undecided(comparison)):
            what = "undecided"
        else:
            return ""
        files = {each.backend: each.artifacts for each in self.assessment.backends}
        place = self._place(files.get(comparison.backend, ()))
        return f"schedprof: {what} against {self.baseline!r}: {told}; see {place}"

    def _place(self, artifacts: Sequence[str]) -> str:
        if not (self.directory and artifacts):
            return "no artifact"
        path = str(self.directory / artifacts[0])
        return min(path, os.path.relpath(path), key=len)


def unjudged(plan: Plan, sides: Sides) -> Judgement:
    """Return the judgement before anything is assessed."""
    if sides.against is not None:
        baseline = sides.against.name
    else:
        baseline = plan.reference.name if plan.reference else ""
    return Judgement(baseline, plan.settings.strict)


def judge_test(plan: Plan, sides: Sides, alpha: float, directory: Path | None) -> Judgement:
    """Assess all sides, store their files in the directory, judge limits and compare.

    The other sides come first, because limits may be relative to what is measured there.
    """
    troubles = [*_assess_others(sides, directory)]
    reference = _in_turns(sides.against, alpha) if sides.against else plan.reference
    here = sides.here
    earlier = Earlier(reference, here.record())
    seen = assess(here.recorder, plan.limits, directory, earlier)
    here.gathering.keep(directory, seen.backends, sides.gatherings_beside)
    here.evidence, wrong = judge_evidence(plan.limits, here.evidence, earlier)
    errors = (*seen.errors, *troubles, *wrong)
    if plan.settings.seeds > 1 and not errors and not here.recorder.tasks:
        errors = (SchedprofError(NOTHING_SEARCHED),)
    here.assessment = Assessment(seen.backends, errors)
    judgement = replace(
        unjudged(plan, sides),
        directory=directory,
        assessment=here.assessment,
        evidence=here.evidence,
    )
    if here.assessment.errors:
        return judgement
    null = _in_turns(sides.null, alpha) if sides.null else None
    found = _compare(plan, earlier, seen)
    as_null = _compare(plan, replace(earlier, reference=null), seen)
    after = partial(decided_in, directory, seen.backends)
    return replace(
        judgement,
        comparisons=_with_partings(found, _earlier_decisions(plan, sides, directory), after),
        null=_with_partings(as_null, _decisions_of(sides.null, NULL, directory), after),
    )


def is_decided(plan: Plan, here: Side, against: Side, alpha: float) -> bool:
    """Whether what was recorded so far shows a regression, or shows that there is none."""
    against.assessment = assess(against.recorder, (), None)
    earlier = Earlier(_in_turns(against, alpha), here.record())
    found = _compare(plan, earlier, assess(here.recorder, (), None))
    verdicts = {each.verdict for each in found}
    return Verdict.FAIL in verdicts or verdicts == {Verdict.PASS}


def _assess_others(sides: Sides, directory: Path | None) -> Iterator[SchedprofError]:
    """Assess and store the other sides, each in a directory of its own; yield their troubles."""
    for name, side in sides.others.items():
        place = directory and directory / name
        if place is not None:
            make_directory(place)
        side.assessment = assess(side.recorder, (), place)
        side.gathering.keep(place, side.assessment.backends)
        keep_record(place, side.record())
        yield from (_named(error, side.name) for error in side.assessment.errors)


def _in_turns(side: Side, alpha: float) -> InTurns:
    return InTurns(side.name, side.record(), alpha)


def _compare(plan: Plan, earlier: Earlier, seen: Assessment) -> tuple[Comparison, ...]:
    """Compare each backend's result with the reference.

    A test whose limits are relative has said what a regression is: no other one is binding.
    """
    is_binding = not plan.has_own_measure
    return tuple(each for of in seen.backends for each in earlier.compare(of, is_binding))


def _with_partings(
    comparisons: tuple[Comparison, ...], before: Reader, after: Reader
) -> tuple[Comparison, ...]:
    return tuple(with_first_difference(each, before, after) for each in comparisons)


def _earlier_decisions(plan: Plan, sides: Sides, directory: Path | None) -> Reader:
    """Return what reads the decisions that the test is compared with."""
    if sides.against is not None or plan.reference is None:
        return _decisions_of(sides.against, AGAINST, directory)
    return partial(decided_in_run, plan.reference.run, sides.here.record().test_id)


def _decisions_of(side: Side | None, name: str, directory: Path | None) -> Reader:
    backends = side.assessment.backends if side else ()
    return partial(decided_in, directory and directory / name, backends)


def _named(error: SchedprofError, side: str) -> SchedprofError:
    """Return the error with the name of the side that it occurred on."""
    named = SchedprofError(f"schedprof: {side}: {str(error).removeprefix('schedprof: ')}")
    named.__cause__ = error
    return named
