"""Judge one profiled test: its limits, and how it compares with a baseline or with another side.

`judge_test` reads from top to bottom: `assess` reads what each side recorded and judges the limits,
and the reference compares. `complaint` says why a test that passed must fail after all.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from pytest_schedprof.errors import LimitError, SchedprofError, printable
from pytest_schedprof.judge.acceptance import with_tolerance
from pytest_schedprof.judge.limits import choices
from pytest_schedprof.judge.parting import Reader, with_first_difference
from pytest_schedprof.judge.phases import EvidenceMeasurements
from pytest_schedprof.judge.reference import InTurns
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.measuring.assessment import Assessment, Earlier, assess, keep_record
from pytest_schedprof.measuring.options import option_named
from pytest_schedprof.measuring.plan import Plan
from pytest_schedprof.measuring.sides import Side, Sides
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Limit, LimitResult, Verdict
from pytest_schedprof.model.result import OWN_VIRTUAL, Result
from pytest_schedprof.report.changes import regressions, undecided
from pytest_schedprof.report.tables import describe
from pytest_schedprof.store.run_directory import AGAINST, PAGE, make_directory
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
        return LimitResult(str(limit), Verdict.INCONCLUSIVE, (), limit, doubt)
    known = choices(limit.measured, limit.pattern)
    reference = earlier.reference
    before = reference.evidence_before(earlier.test, evidence.kind) if reference else None
    return judge(limit, measurements, known, before)


NOTHING_SEARCHED = (
    "schedprof: the scheduler finished no task under this seed, so nothing was searched: let the "
    "test submit some and wait for them, or leave out the seeds"
)


def complaint(
    record: Result, directory: Path | None, plan: Plan, command: str, start: Path
) -> str | None:
    """Say why a test that passed must fail: trouble, or limits; None if it need not fail.

    Args:
        record: of the test.
        directory: of its artifacts.
        plan: of the test.
        command: that runs the test again.
        start: the directory in which commands are given, whatever the test's own is now.
    """
    is_strict = plan.settings.strict
    page = directory / PAGE if directory else None
    lines = [*record.troubles, *broken(record, page, start, is_strict=is_strict)]
    binding = [comparison for comparison in record.comparisons if comparison.is_binding]
    commit = f" ({record.baseline_commit})" if record.baseline_commit else ""
    since = f"{record.baseline!r}{commit}"
    rises = [changes for comparison in binding if (changes := regressions(comparison))]
    lines += [f"schedprof: regressed against {since}: {changes}" for changes in rises]
    if is_strict:
        lines += [
            f"schedprof: undecided against {since}: {undecided(comparison)}"
            for comparison in binding
            if not regressions(comparison) and comparison.verdict is not Verdict.PASS
        ]
    if rises:
        test, runs = shlex.quote(record.test_id), os.path.relpath(plan.settings.dir, start)
        by_dir, by_run = (
            "" if runs == option_named("dir").default else f" {option} {shlex.quote(runs)}"
            for option in ("--dir", "--run")
        )
        lines.append(f"  why:    schedprof explain {test}{by_dir}")
        lines.append(f"  again:  {command}")
        if not plan.settings.against:
            lines.append(f"  accept: schedprof accept {test}{by_run} --reason '...'")
    return printable("\n".join(lines)) or None


def broken(
    record: Result, file: Path | None, start: Path | str = os.curdir, *, is_strict: bool
) -> list[str]:
    """Return a line for each limit that makes the test fail, with the file that shows more."""
    failing = {Verdict.FAIL, *([Verdict.INCONCLUSIVE] if is_strict else [])}
    place = f"; see {min(str(file), os.path.relpath(file, start), key=len)}" if file else ""
    return [
        f"schedprof: limit {'broken' if limit.verdict is Verdict.FAIL else 'inconclusive'}: "
        f"{describe(limit)}{place}"
        for limit in record.limits
        if limit.verdict in failing
    ]


def judge_test(
    plan: Plan, sides: Sides, alpha: float, directory: Path | None, *, is_whole: bool
) -> tuple[Comparison, ...]:
    """Assess both sides, store their files in the directory, judge limits and compare.

    The other side comes first, because limits may be relative to what is measured there. A search
    must have run something, unless the body is not whole: it failed or skipped before.
    """
    against, tested = sides.against, sides.tested
    troubles = _assess_against(against, directory) if against else []
    reference = _in_turns(against, alpha) if against else plan.reference
    earlier = Earlier(reference, tested.record())
    assessed = assess(tested.recorder, plan.limits, directory, earlier)
    beside = against.gathering if against else None
    gathering = tested.gathering
    gathering.keep(directory, assessed.backends, beside)
    # What backends measured tells how much the test did, and at which sizes.
    now = Earlier(reference, replace(earlier.test, backends=assessed.backends))
    gathering.kept, wrong = judge_evidence(plan.limits, gathering.kept or (), now)
    errors = (*assessed.errors, *troubles, *wrong)
    is_search = plan.settings.seeds > 1 and tested.scheduler.cluster.kind != OWN_VIRTUAL
    if is_search and is_whole and not errors and not tested.recorder.tasks:
        errors = (SchedprofError(NOTHING_SEARCHED),)
    tested.assessment = Assessment(assessed.backends, errors)
    if errors:
        return ()
    before = _decisions_before(plan, against, directory, earlier.test.test_id)
    after = partial(decided_in, directory, assessed.backends)
    return tuple(
        with_first_difference(comparison, before, after)
        for comparison in _compare(plan, earlier, assessed)
    )


def is_decided(plan: Plan, tested: Side, against: Side, alpha: float) -> bool:
    """Whether what was recorded so far shows a regression, or shows that there is none."""
    against.assessment = assess(against.recorder, (), None)
    earlier = Earlier(_in_turns(against, alpha), tested.record())
    comparisons = _compare(plan, earlier, assess(tested.recorder, (), None))
    verdicts = {comparison.verdict for comparison in comparisons}
    return Verdict.FAIL in verdicts or verdicts == {Verdict.PASS}


def _assess_against(side: Side, directory: Path | None) -> list[SchedprofError]:
    """Assess the other side and store it in a directory of its own; return its troubles."""
    place = directory and directory / AGAINST
    if place is not None:
        make_directory(place)
    side.assessment = assess(side.recorder, (), place)
    side.gathering.keep(place, side.assessment.backends)
    keep_record(place, side.record())
    troubles = []
    for error in side.assessment.errors:
        named = SchedprofError(f"schedprof: {side.name}: {str(error).removeprefix('schedprof: ')}")
        named.__cause__ = error
        troubles.append(named)
    return troubles


def _in_turns(side: Side, alpha: float) -> InTurns:
    return InTurns(side.name, side.record(), alpha)


def _compare(plan: Plan, earlier: Earlier, assessed: Assessment) -> list[Comparison]:
    """Compare each backend's result with the reference.

    A test whose limits are relative has said what a regression is: no other one is binding.
    """
    is_binding = not any(limit.is_relative for limit in plan.limits)
    compared = (
        comparison
        for backend in assessed.backends
        for comparison in earlier.compare(backend, is_binding)
    )
    return [with_tolerance(comparison, plan.settings.tolerance) for comparison in compared]


def _decisions_before(
    plan: Plan, against: Side | None, directory: Path | None, test_id: str
) -> Reader:
    if against is None and plan.reference is not None:
        return partial(decided_in_run, plan.reference.run, test_id)
    backends = against.assessment.backends if against else ()
    return partial(decided_in, directory and directory / AGAINST, backends)
