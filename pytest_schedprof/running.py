"""One test's body under the profiler, as often as its plan says, and the report of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_schedprof.callbacks import callbacks_of
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.collecting import collect, run_of
from pytest_schedprof.errors import SchedprofError, as_own
from pytest_schedprof.fixtures import RIVALS, SCHEDULER
from pytest_schedprof.plan import Plan
from pytest_schedprof.profiling import ProfiledTest
from pytest_schedprof.progress import showing
from pytest_schedprof.reports.junit import properties_of
from pytest_schedprof.reports.summary import pack
from pytest_schedprof.scaling import giving

PROFILED: pytest.StashKey[ProfiledTest] = pytest.StashKey()


def run_profiled(item: pytest.Item, plan: Plan) -> Generator[None, Any, Any]:
    """Stand around the run that pytest makes, and make the others."""
    profiled = item.stash[PROFILED] = _profiled(item, plan)
    takes = showing(item.config, profiled)
    try:
        with giving(item, *next(takes)):
            outcome = yield
        for take, side in takes:
            with giving(item, take, side):
                item.runtest()
    except (KeyboardInterrupt, pytest.exit.Exception):
        profiled.break_off()
        profiled.assess()
        _keep_interrupted(item, profiled)
        raise
    finally:
        takes.close()
        profiled.assess()
    if complaint := profiled.complaint():  # only of a test that passed: see the finally above
        pytest.fail(complaint, pytrace=False)
    return outcome


def _profiled(item: pytest.Item, plan: Plan) -> ProfiledTest:
    """On the scheduler that the test was given, or else on those of its own process."""
    scheduler = item.stash.get(SCHEDULER, None) or InProcess()
    rivals = item.stash.get(RIVALS, {})
    callbacks = callbacks_of(item.config) if "local" in plan.settings.evidence else []
    return ProfiledTest(item.nodeid, plan, run_of(item.config), scheduler, rivals, callbacks)


def _keep_interrupted(item: pytest.Item, profiled: ProfiledTest) -> None:
    """pytest makes no report of a test that is interrupted: its record is written here."""
    try:
        result = profiled.conclude("interrupted")
    except SchedprofError:
        return  # the interrupt is what matters
    if not hasattr(item.config, "workerinput"):
        collect(item.config, pack(result, profiled.directory))


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Give the report its result; a record that cannot be kept fails a test that passed."""
    if PROFILED not in item.stash:
        return
    profiled = item.stash[PROFILED]
    del item.stash[PROFILED]  # a rerun of the test starts afresh
    complaint = profiled.complaint()
    _expect_no_trouble(report, profiled)
    try:
        result = profiled.conclude(_outcome(report))
    except Exception as error:  # monkeypatches of the test are still in place
        complaint = "\n".join(filter(None, [complaint, str(as_own(error))]))
        if report.passed:
            report.outcome, report.longrepr = "failed", complaint
    else:
        report.__dict__["schedprof"] = pack(result, profiled.directory)
        # JUnit takes the properties of the teardown's report, which come from the item.
        for properties in (item.user_properties, report.user_properties):
            properties.extend(properties_of(result, profiled.directory))
    if complaint and complaint not in str(report.longrepr):
        report.sections.append(("schedprof", complaint))


def _expect_no_trouble(report: pytest.TestReport, profiled: ProfiledTest) -> None:
    """Who expects a failure does not expect a mistake of the profiling."""
    if profiled.assessment.troubles and hasattr(report, "wasxfail"):
        del report.wasxfail
        report.outcome, report.longrepr = "failed", "\n".join(profiled.assessment.troubles)


def _outcome(report: pytest.TestReport) -> str:
    """In pytest's words, which it has in two places."""
    expected = {"skipped": "xfailed", "passed": "xpassed"} if hasattr(report, "wasxfail") else {}
    return expected.get(report.outcome, report.outcome)
