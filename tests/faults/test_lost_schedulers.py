"""Schedulers that die while they are profiled: what was recorded until then is kept."""

from __future__ import annotations

import signal
import time

import pytest
from harness import Outcome, Session, harmed, kill, together
from support import Project

from pytest_schedprof.backends.remote import UP_TO_THE_FAULT
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WORKING = """
@pytest.mark.schedprof({arguments})
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.5)
    reached("worked")
"""


def backends_of(outcome: Outcome) -> dict[str, BackendResult]:
    """Return the results of the backends of the only test, which must have failed."""
    assert outcome.verdicts == {"test_it": "failed"}, outcome.output
    assert outcome.exit_code == 1
    return {backend.backend: backend for backend in outcome.results["test_it"].backends}


def test_samples_are_kept_up_to_the_fault(project: Project) -> None:
    limits = "'share(@transitions) <= 99.9%', 'share(*:*burn_scheduler_cpu) <= 99.9%'"
    body = WORKING.format(arguments=f"{limits}, backend='cputime,pyspy'")
    outcome = harmed(project, body, at="worked", harm=kill("scheduler"))
    backends = backends_of(outcome)
    assert backends.keys() == {"cputime", "pyspy"}, outcome.output
    for name, backend in backends.items():
        assert backend.shares is not None
        assert any("burn_scheduler_cpu" in of.function for of in backend.shares.functions)
        assert backend.shares.samples > 20
        assert {limit.verdict for limit in backend.limits} == {Verdict.INCONCLUSIVE}
        assert backend.doubt == UP_TO_THE_FAULT
        assert f"scheduler.{name}.speedscope.json" in outcome.kept
    assert "scheduler.log" in outcome.kept
    assert UP_TO_THE_FAULT in outcome.output
    outcome.expect_nothing_left()


def test_allocations_are_kept_up_to_the_fault_if_they_are_written_at_once(
    project: Project,
) -> None:
    body = WORKING.format(arguments="'peak <= 1GB', backend='memray'")
    option = "--schedprof-option=memray.at_once=true"
    outcome = harmed(project, body, option, at="worked", harm=kill("scheduler"))
    memray = backends_of(outcome)["memray"]
    assert memray.costs is not None
    assert memray.costs.whole["peak"] > 0
    assert memray.limits[0].verdict is Verdict.INCONCLUSIVE
    outcome.expect_nothing_left()


BACKENDS = ("counts", "memray", "cprofile", "viztracer")

SECOND_ROUND = """
import psutil

def by(backend):
    return pytest.param(marks=pytest.mark.schedprof(backend=backend, rounds=2), id=backend)

rounds = []

@pytest.mark.parametrize((), [by(backend) for backend in BACKENDS])
def test_it(request, schedprof_scheduler):
    rounds.append(request.node.name)
    if rounds.count(request.node.name) == 2:
        scheduler = psutil.Process(schedprof_scheduler.client.run_on_scheduler(os.getpid))
        scheduler.kill()
        scheduler.wait(10)
        if "cprofile" not in request.node.name:
            return
    burn(schedprof_scheduler, 0.2)
"""


def test_rounds_before_the_fault_are_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session for all backends: each loses a scheduler of its own in its second round.

    The body of one needs it after that, and fails by itself.
    """
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "8s")  # not 30
    body = SECOND_ROUND.replace("BACKENDS", repr(BACKENDS))
    roomy = "--schedprof-option=viztracer.tracer_entries=8000000"  # a full buffer is told instead
    outcome = harmed(project, body, roomy)
    verdicts = {f"test_it[{backend}]": "failed" for backend in BACKENDS}
    assert outcome.verdicts == verdicts, outcome.output
    for backend in BACKENDS:
        (result,) = outcome.results[f"test_it[{backend}]"].backends
        assert result.backend == backend
        assert result.window.rounds == 1
        assert result.costs is not None
        assert result.costs.functions
        assert result.doubt == "the scheduler was lost before it named the functions of the profile"
    assert "scheduler.log" in outcome.kept
    assert not outcome.processes


def test_guard_killed_and_then_the_scheduler(project: Project) -> None:
    body = WORKING.format(arguments="backend='pyspy'")
    harm = together(kill("guard"), kill("scheduler"))
    outcome = harmed(project, body, at="worked", harm=harm)
    assert backends_of(outcome)["pyspy"].shares
    outcome.expect_nothing_left()


def test_guard_killed_while_the_profiler_is_stopped(project: Project) -> None:
    """The stopped profiler may hold the scheduler, which nothing else can end then."""
    body = WORKING.format(arguments="backend='pyspy'")

    def kill_at_once(session: Session) -> None:
        (scheduler,) = session.with_role("scheduler")
        scheduler.kill()  # it may not end before its profiler does

    harm = together(kill("guard"), kill("profiler", signal.SIGSTOP), kill_at_once)
    outcome = harmed(project, body, at="worked", harm=harm)
    backends_of(outcome)
    outcome.expect_nothing_left()


def hold(session: Session) -> None:
    """Stop the profiler while it holds the scheduler, and kill its watchdog."""
    kill("guard")(session)
    (profiler,), (scheduler,) = session.with_role("profiler"), session.with_role("scheduler")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:  # it samples seldom where other processes are busy
        profiler.suspend()
        if scheduler.status() == "tracing-stop":
            return
        profiler.resume()
    raise AssertionError("the profiler never held the scheduler")


def test_guard_killed_while_the_stopped_profiler_holds_the_scheduler(project: Project) -> None:
    body = WORKING.format(arguments="backend='pyspy', rate=500")
    outcome = harmed(project, body, at="worked", harm=hold)
    backends_of(outcome)
    outcome.expect_nothing_left()


BETWEEN = """
@pytest.mark.schedprof(backend="cputime")
def test_first(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)

@pytest.mark.schedprof(backend="cputime")
def test_second(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)
"""


def test_scheduler_killed_just_before_a_test(project: Project) -> None:
    outcome = harmed(project, BETWEEN, at="scheduler started#2", harm=kill("scheduler"))
    assert outcome.verdicts == {"test_first": "passed", "test_second": "passed"}, outcome.output
    outcome.expect_nothing_left()


@pytest.mark.parametrize(("role", "whose"), [("scheduler", "scheduler's"), ("workers", "workers'")])
def test_process_of_a_cluster_killed_at_its_start(project: Project, role: str, whose: str) -> None:
    stage = "cluster starting" if role == "scheduler" else "cluster starting#2"
    outcome = harmed(project, BETWEEN, at=stage, harm=kill(role))
    assert outcome.verdicts["test_first"] == "error"
    assert f"schedprof: the {whose} process " in outcome.output
    assert "was killed by signal 9 while starting" in outcome.output
    outcome.expect_nothing_left()
