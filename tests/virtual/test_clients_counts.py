"""Tests of counting the client's bytecodes, beside the scheduler, on clusters in virtual time."""

from __future__ import annotations

import shutil
import sys

import injection
import pytest
from support import Project

from pytest_schedprof.judge.compare import compare
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.metric import CLIENT_BYTECODES
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.baselines import load

pytestmark = pytest.mark.usefixtures("apart")  # each session needs an interpreter of its own

OPTIONS = (
    "--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4",
    "--schedprof-rounds=1",
)  # fmt: skip

MAP, RELEASE = "distributed.client:Client.map", "distributed.client:Client._release_key"

CHANGED = f"""
from injection import plant

@pytest.fixture
def changed():
    plant(*{MAP.split(":")}, "for _ in range(4_000): pass")
    plant(*{RELEASE.split(":")}, "for _ in range(40): pass")
"""

UNCHANGED = """
@pytest.fixture
def changed():
    pass
"""

BODY = """
def test_it(schedprof_scheduler, changed):
    client = schedprof_scheduler.client
    wait(client.map(lambda x: x, range(100), pure=False))
"""


def runs(project: Project) -> list[tuple[Result, ...]]:
    """Return the results of each session, the first one first."""
    directories = sorted((project.path / ".schedprof").glob("2*"))
    return [load(str(each), str(project.path)).results for each in directories]


def told(project: Project) -> Comparison:
    """Return the comparison that the newest session made."""
    (comparison,) = runs(project)[-1][0].comparisons
    return comparison


def subjects(comparison: Comparison, outcome: Outcome) -> set[tuple[str, str]]:
    return {(each.metric, each.subject) for each in comparison.of(outcome)}


@pytest.mark.slow
def test_a_dearer_client_is_told_by_its_functions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them runs on the thread of the test, one on that of the event loop."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.chdir(project.path)
    shutil.copy(injection.__file__, project.path)
    project.run_test(UNCHANGED + BODY, *OPTIONS, "--schedprof-save=main")
    project.run_test(UNCHANGED + BODY, *OPTIONS, "--schedprof-compare=main")
    assert told(project).changes == ()
    project.run_test(CHANGED + BODY, *OPTIONS, "--schedprof-compare=main")
    risen = subjects(told(project), Outcome.REGRESSED)
    assert risen == {(CLIENT_BYTECODES, subject) for subject in (MAP, RELEASE, "")}
    # And in the other direction.
    _, unchanged, dear = runs(project)
    (back,) = compare(dear, unchanged).comparisons
    assert subjects(back, Outcome.IMPROVED) == risen


@pytest.mark.slow
def test_modules_that_other_tests_imported_are_no_change(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To send a function that uses a package, cloudpickle looks through all imported modules."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.chdir(project.path)
    body = """
import concurrent, sys, types

def test_it(schedprof_scheduler):
    for number in range({more}):
        sys.modules[f"imported_{{number}}"] = types.ModuleType("imported")
    wait(schedprof_scheduler.client.map(lambda x: concurrent and x, range(100), pure=False))
"""
    project.run_test(body.format(more=1), *OPTIONS, "--schedprof-save=main")
    project.run_test(body.format(more=2000), *OPTIONS, "--schedprof-compare=main")
    assert subjects(told(project), Outcome.REGRESSED) == set()


@pytest.mark.slow
def test_a_limit_bounds_them_and_nothing_stays_behind(project: Project) -> None:
    limits = (
        f"--schedprof-limit={CLIENT_BYTECODES}({MAP}) <= 100000",
        f"--schedprof-limit={CLIENT_BYTECODES} <= 1",
    )
    after = """
def test_after():
    import sys
    assert sys.gettrace() is None
    if hasattr(sys, "monitoring"):
        assert not any(sys.monitoring.get_tool(number) for number in (3, 4))
"""
    run = project.run_test(UNCHANGED + BODY + after, *OPTIONS, *limits)
    run.assert_outcomes(failed=1, passed=1)
    run.stdout.fnmatch_lines([f"*limit broken: {CLIENT_BYTECODES} <= 1: *"])
    assert project.result().backends[0].limits[0].verdict.value == "pass"


@pytest.mark.slow
def test_a_debugger_keeps_the_trace_function(project: Project) -> None:
    """Then the client is not counted, and the scheduler is."""
    if hasattr(sys, "monitoring"):
        pytest.skip("tools have numbers of their own")
    body = """
import sys

def test_it(schedprof_scheduler):
    def trace(frame, event, argument):
        return None
    sys.settrace(trace)
    try:
        with schedprof_scheduler.measure():
            wait(schedprof_scheduler.client.map(inc, range(10)))
        assert sys.gettrace() is trace
    finally:
        sys.settrace(None)
"""
    limit = f"--schedprof-limit={CLIENT_BYTECODES} <= 1"
    project.run_test(body, *OPTIONS, limit).assert_outcomes(passed=1)
    (found,) = project.result().backends
    assert found.costs
    assert found.costs.whole["bytecodes"] > 0
    assert CLIENT_BYTECODES not in found.costs.whole
    assert found.limits[0].verdict.value == "inconclusive"
