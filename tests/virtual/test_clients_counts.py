"""Tests of counting the client's bytecodes, beside the scheduler, on clusters in virtual time."""

from __future__ import annotations

import shutil
import sys

import injection
import pytest
from support import Project

from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.metric import CLIENT_BYTECODES
from pytest_schedprof.storage.baselines import load

pytestmark = pytest.mark.usefixtures("apart")  # each session needs an interpreter of its own

OPTIONS = (
    "--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4",
    "--schedprof-rounds=1",
)  # fmt: skip

CHANGED = """
from injection import plant

@pytest.fixture
def changed():
    plant(*{change})
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

MAP, RELEASE = "distributed.client:Client.map", "distributed.client:Client._release_key"


def compared(project: Project) -> Comparison:
    """Return the comparison of the newest session."""
    (result,) = load(str(max((project.path / ".schedprof").glob("2*"))), str(project.path)).results
    (comparison,) = result.comparisons
    return comparison


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "statement"),
    [(MAP, "for _ in range(4_000): pass"), (RELEASE, "for _ in range(40): pass")],
    ids=["the test's thread", "the event loop's thread"],
)
def test_a_dearer_client_is_told_by_its_function(
    project: Project, monkeypatch: pytest.MonkeyPatch, function: str, statement: str
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.chdir(project.path)
    shutil.copy(injection.__file__, project.path)
    change = repr((*function.split(":"), statement))
    project.run_test(UNCHANGED + BODY, *OPTIONS, "--schedprof-save=main")
    project.run_test(UNCHANGED + BODY, *OPTIONS, "--schedprof-compare=main")
    assert compared(project).changes == ()
    project.run_test(CHANGED.format(change=change) + BODY, *OPTIONS, "--schedprof-compare=main")
    risen = {(each.metric, each.subject) for each in compared(project).of(Outcome.REGRESSED)}
    assert risen == {(CLIENT_BYTECODES, function), (CLIENT_BYTECODES, "")}
    # And in the other direction.
    project.run_test(CHANGED.format(change=change) + BODY, *OPTIONS, "--schedprof-save=dear")
    project.run_test(UNCHANGED + BODY, *OPTIONS, "--schedprof-compare=dear")
    fallen = {(each.metric, each.subject) for each in compared(project).of(Outcome.IMPROVED)}
    assert fallen == risen


@pytest.mark.slow
def test_a_limit_bounds_them(project: Project) -> None:
    limits = (
        f"--schedprof-limit={CLIENT_BYTECODES}({MAP}) <= 100000",
        f"--schedprof-limit={CLIENT_BYTECODES} <= 1",
    )
    run = project.run_test(UNCHANGED + BODY, *OPTIONS, *limits)
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines([f"*limit broken: {CLIENT_BYTECODES} <= 1: *"])
    assert project.result().backends[0].limits[0].verdict.value == "pass"


@pytest.mark.slow
def test_nothing_stays_behind(project: Project) -> None:
    after = """
def test_after():
    import sys
    assert sys.gettrace() is None
    if hasattr(sys, "monitoring"):
        assert not any(sys.monitoring.get_tool(number) for number in (3, 4))
"""
    project.run_test(UNCHANGED + BODY + after, *OPTIONS).assert_outcomes(passed=2)


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
