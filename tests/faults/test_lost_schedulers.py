"""Schedulers that die while they are profiled: what was recorded until then is kept."""

from __future__ import annotations

import time

import pytest
from harness import Outcome, Session, harmed, kill, together
from support import INI, Kept, Project

from pytest_schedprof.backends.remote import UP_TO_THE_FAULT
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WORKING = """
@pytest.mark.schedprof({arguments})
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
    reached("worked")
"""


def backends_of(outcome: Outcome) -> dict[str, BackendResult]:
    """Return the results of the backends of the only test, which must have failed."""
    assert outcome.verdicts == {"test_it": "failed"}, outcome.output
    assert outcome.exit_code == 1
    return {backend.backend: backend for backend in outcome.results["test_it"].backends}


BACKENDS = ("counts", "memray", "cprofile", "viztracer")

OWN_HARM = """
import psutil

def end(schedprof_scheduler):
    scheduler = psutil.Process(schedprof_scheduler.pid)
    scheduler.kill()
    scheduler.wait(10)

def by(backend):
    return pytest.param(marks=pytest.mark.schedprof(backend=backend, rounds=2), id=backend)

rounds = []

@pytest.mark.parametrize((), [by(backend) for backend in BACKENDS])
def test_rounds(request, schedprof_scheduler):
    rounds.append(request.node.name)
    if rounds.count(request.node.name) == 2:
        end(schedprof_scheduler)
        if "cprofile" not in request.node.name:
            return
    burn(schedprof_scheduler, 0.2)

LIMITS = ("share(@transitions) <= 99.9%", "share(*:*burn_scheduler_cpu) <= 99.9%")

@pytest.mark.schedprof(*LIMITS, backend="cputime,pyspy")
def test_samples(schedprof_scheduler):
    burn(schedprof_scheduler, 0.5)
    end(schedprof_scheduler)

@pytest.mark.schedprof("peak <= 1GB", backend="memray", options={"memray": {"at_once": True}})
def test_allocations(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
    end(schedprof_scheduler)
"""


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A session of tests that end the schedulers they were given, a new one each time.

    The body of one needs it after that, and fails by itself.
    """
    project = Kept(tmp_path_factory.mktemp("lost"))
    (project.path / "tox.ini").write_text(INI)
    roomy = "--schedprof-option=viztracer.tracer_entries=8000000"  # a full buffer is told instead
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "8s")  # not 30
        outcome = harmed(project, OWN_HARM.replace("BACKENDS", repr(BACKENDS)), roomy)
    names = {f"test_rounds[{backend}]" for backend in BACKENDS}
    names |= {"test_samples", "test_allocations"}
    assert outcome.verdicts == dict.fromkeys(names, "failed"), outcome.output
    assert "scheduler.log" in outcome.kept
    outcome.expect_nothing_left()
    return outcome


@pytest.mark.parametrize("name", ["cputime", "pyspy"])
def test_samples_are_kept_up_to_the_fault(lost: Outcome, name: str) -> None:
    backends = {backend.backend: backend for backend in lost.results["test_samples"].backends}
    backend = backends[name]
    assert backend.shares is not None
    assert any("burn_scheduler_cpu" in of.function for of in backend.shares.functions)
    assert backend.shares.samples > 20
    assert {limit.verdict for limit in backend.limits} == {Verdict.INCONCLUSIVE}
    assert backend.doubt == UP_TO_THE_FAULT
    assert f"scheduler.{name}.speedscope.json" in lost.kept
    assert UP_TO_THE_FAULT in lost.output


def test_allocations_are_kept_up_to_the_fault_if_they_are_written_at_once(lost: Outcome) -> None:
    (memray,) = lost.results["test_allocations"].backends
    assert memray.costs is not None
    assert memray.costs.whole["peak"] > 0
    assert memray.limits[0].verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounds_before_the_fault_are_kept(lost: Outcome, backend: str) -> None:
    (result,) = lost.results[f"test_rounds[{backend}]"].backends
    assert result.backend == backend
    assert result.window.rounds == 1
    assert result.costs is not None
    assert result.costs.functions
    assert result.doubt == "the scheduler was lost before it named the functions of the profile"


def test_guard_killed_and_then_the_scheduler(project: Project) -> None:
    body = WORKING.format(arguments="backend='pyspy'")
    harm = together(kill("guard"), kill("scheduler"))
    outcome = harmed(project, body, at="worked", harm=harm)
    assert backends_of(outcome)["pyspy"].shares
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
