"""Runs a test's body under the profiler as often as its plan says, and completes its report.

`measuring/profiling.py` describes the path from here.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.errors import SchedprofError, as_own
from pytest_schedprof.evidence.code import source_of
from pytest_schedprof.evidence.contract import Need
from pytest_schedprof.measuring.plan import Plan
from pytest_schedprof.measuring.profiling import ProfiledTest
from pytest_schedprof.plugin.arguments import arguments_for_run
from pytest_schedprof.plugin.collecting import collect
from pytest_schedprof.plugin.progress import callbacks_of, showing
from pytest_schedprof.plugin.stash import (
    HAS_FAILED_SUBTEST,
    OTHER_SCHEDULERS,
    PROFILED,
    SCHEDULER,
    run_of,
)
from pytest_schedprof.plugin.telling import tell_at_once
from pytest_schedprof.reports.junit import properties_of
from pytest_schedprof.reports.packing import pack


def run_profiled(item: pytest.Item, plan: Plan) -> Generator[None, Any, Any]:
    """Record the run of the body that pytest makes, and make the other runs of the plan."""
    profiled = item.stash[PROFILED] = _profiled(item, plan)
    profiled.tell_by(partial(tell_at_once, item.config))
    profiled.begin()
    try:
        outcome = yield from _run_body(item, profiled)
    except (KeyboardInterrupt, pytest.exit.Exception):
        _keep_interrupted(item, profiled)
        raise
    # Only of a test that passed: a body that failed has left by the `finally` above.
    if complaint := profiled.judgement.complaint():
        pytest.fail(complaint, pytrace=False)
    return outcome


def _run_body(item: pytest.Item, profiled: ProfiledTest) -> Generator[None, Any, Any]:
    """Make all runs of the body, and assess them however they end."""
    body_runs = showing(item.config, profiled.schedule)
    try:
        with arguments_for_run(item, *next(body_runs)):
            outcome = yield
        for body_run, side in body_runs:
            profiled.keep_rounds()
            with arguments_for_run(item, body_run, side):
                item.runtest()
    except (KeyboardInterrupt, pytest.exit.Exception):
        profiled.schedule.break_off()
        raise
    finally:
        body_runs.close()
        profiled.assess()
    return outcome


def _profiled(item: pytest.Item, plan: Plan) -> ProfiledTest:
    """Profile the scheduler of the test's fixture, or else schedulers in this process."""
    scheduler = item.stash.get(SCHEDULER, None) or InProcess(plan.needs_scheduler)
    other_schedulers = item.stash.get(OTHER_SCHEDULERS, {})
    if plan.launcher and SCHEDULER in item.stash:
        _import_module(item, item.stash[SCHEDULER], *other_schedulers.values())
    callbacks = callbacks_of(item.config) if plan.needs(Need.CALLBACKS) else []
    return ProfiledTest(
        item.nodeid,
        plan,
        run_of(item.config),
        scheduler,
        other_schedulers,
        callbacks,
        must_have_scheduler=plan.settings.strict or _demands_scheduler(item, plan),
        code=partial(source_of, getattr(item, "function", None)),
    )


def _import_module(item: pytest.Item, *schedulers: SchedulerUnderTest) -> None:
    """Import the test's module on schedulers that a launcher started, which are slow.

    Else it is imported within the window, with the first of its functions. Together with what it
    imports itself, pytest for one, that takes longer there than most tests.
    """
    if module := getattr(item, "module", None):
        for each in schedulers:
            each.import_early(module.__name__)


def _demands_scheduler(item: pytest.Item, plan: Plan) -> bool:
    """Whether a marker stands on the test function, or on the parameters of this run of it.

    One on a module or a class, or from a conftest, means each test that has a scheduler. If the
    command line chose the backends, they may be others than those of a test that needs none.
    """
    if plan.settings.is_forced and plan.limits_client_alone:
        return False
    on_function = getattr(getattr(item, "obj", None), "pytestmark", ())
    on_parameters = getattr(getattr(item, "callspec", None), "marks", ())
    return any(mark.name == "schedprof" for mark in [*on_function, *on_parameters])


def _keep_interrupted(item: pytest.Item, profiled: ProfiledTest) -> None:
    """Write the record of an interrupted test here, because pytest makes no report of it."""
    if profiled.unprofiled:
        return
    try:
        result = profiled.conclude("interrupted")
    except SchedprofError:
        return  # the interrupt is what matters
    if not hasattr(item.config, "workerinput"):
        collect(item.config, pack(result, profiled.directory))


def plain_report(
    item: pytest.Item, call: pytest.CallInfo[None], error: BaseException
) -> pytest.TestReport:
    """Return a report without a traceback of a body that failed, because pytest cannot make one."""
    return pytest.TestReport(
        item.nodeid,
        item.location,
        {},
        "failed",
        f"{type(error).__name__}: {error}",
        "call",
        duration=call.duration,
        start=call.start,
        stop=call.stop,
    )


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the result to the test's report; fail a passed test whose record cannot be written."""
    profiled = item.stash.get(PROFILED, None)
    if profiled is None:
        return
    if not profiled.is_assessed:  # the report of a subtest: the body goes on
        item.stash[HAS_FAILED_SUBTEST] = report.failed or item.stash.get(HAS_FAILED_SUBTEST, False)
        return
    del item.stash[PROFILED]  # a rerun makes its own
    has_failed_subtest = item.stash.get(HAS_FAILED_SUBTEST, False)
    item.stash[HAS_FAILED_SUBTEST] = False
    if profiled.unprofiled:
        report.__dict__["schedprof_unprofiled"] = _outcome(report) != "skipped"
        return
    complaint = None
    try:
        complaint = profiled.judgement.complaint()
        _expect_no_trouble(report, profiled)
        _attach(item, report, profiled, "failed" if has_failed_subtest else _outcome(report))
    except Exception as error:  # the test's monkeypatches are still active
        complaint = "\n".join(filter(None, [complaint, str(as_own(error))]))
        if report.passed:
            report.outcome, report.longrepr = "failed", complaint
    if complaint and complaint not in str(report.longrepr):
        report.sections.append(("schedprof", complaint))


def _attach(
    item: pytest.Item, report: pytest.TestReport, profiled: ProfiledTest, outcome: str
) -> None:
    """Attach the result, and only then write it: the session tells of tests that it cannot keep."""
    result = profiled.record(outcome)
    report.__dict__["schedprof"] = pack(result, profiled.directory)
    # JUnit takes the properties of the teardown's report, which come from the item.
    for properties in (item.user_properties, report.user_properties):
        properties.extend(properties_of(result, profiled.directory))
    profiled.conclude(outcome)


def _expect_no_trouble(report: pytest.TestReport, profiled: ProfiledTest) -> None:
    """Fail an xfail test whose profiling failed: it was marked for another failure."""
    troubles = profiled.judgement.assessment.troubles
    if troubles and hasattr(report, "wasxfail"):
        del report.wasxfail
        report.outcome, report.longrepr = "failed", "\n".join(troubles)


def _outcome(report: pytest.TestReport) -> str:
    """Return the outcome as pytest reports it, with xfailed and xpassed."""
    expected = {"skipped": "xfailed", "passed": "xpassed"} if hasattr(report, "wasxfail") else {}
    return expected.get(report.outcome, report.outcome)
