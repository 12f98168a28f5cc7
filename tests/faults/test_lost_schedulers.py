"""Schedulers that die while they are profiled: rounds before are kept, and nothing is left."""

from __future__ import annotations

import re
import signal
import time

import pytest
from harness import Outcome, Session, harmed, kill, together
from support import INI, Kept

pytestmark = pytest.mark.slow

BACKENDS = ("counts", "memray", "cprofile", "viztracer")

OWN_HARM = """
import psutil

def end(schedprof_scheduler):
    scheduler = psutil.Process(schedprof_scheduler.pid)
    scheduler.kill()
    scheduler.wait()

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
        patch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "20s")  # not 30
        outcome = harmed(project, OWN_HARM.replace("BACKENDS", repr(BACKENDS)), roomy)
    names = {f"test_rounds[{backend}]" for backend in BACKENDS}
    assert outcome.verdicts == dict.fromkeys(names, "failed"), outcome.output
    assert "scheduler.log" in outcome.kept
    assert (outcome.processes, outcome.temporary) == ([], [])
    return outcome


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounds_before_the_fault_are_kept(lost: Outcome, backend: str) -> None:
    (result,) = lost.results[f"test_rounds[{backend}]"].backends
    assert result.backend == backend
    assert result.window.rounds == 1
    assert result.costs is not None
    assert result.costs.functions
    assert result.doubt == "the scheduler was lost before it named the functions of the profile"


def hold(session: Session) -> None:
    """Stop the profiler while it holds the scheduler, and kill its watchdog."""
    kill("guard")(session)
    (profiler,), (scheduler,) = session.with_role("profiler"), session.with_role("scheduler")
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:  # it samples seldom where other processes are busy
        profiler.suspend()
        if scheduler.status() == "tracing-stop":
            return
        profiler.resume()
    raise AssertionError("the profiler never held the scheduler")


NAMES = ("closing", "early", "fetching", "lone", "assessing", "late", "unguarded", "held", "served")
"""Before those whose cluster comes to harm while it starts, a test loses its own."""

HARMED = """
MARK = pytest.mark.schedprof(backend="pyspy", rate=200)

@pytest.mark.parametrize((), [pytest.param(marks=MARK, id=name) for name in NAMES])
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
    reached("worked")
"""

STEPS = [
    ("window closing@test_it[closing]", kill("scheduler")),
    ("cluster starting@test_it[early]", kill("scheduler")),
    ("fetching@test_it[fetching]", kill("scheduler")),
    # Stopped before they know their scheduler, so that they cannot have answered when they die.
    ("cluster starting@test_it[lone]", kill("workers", signal.SIGSTOP)),
    ("cluster starting#2@test_it[lone]", kill("workers")),
    ("assessing@test_it[assessing]", kill("scheduler")),
    ("scheduler started@test_it[late]", kill("scheduler")),  # just before the body
    ("worked@test_it[unguarded]", together(kill("guard"), kill("scheduler", is_held=True))),
    ("worked@test_it[held]", hold),
    ("worked@test_it[served]", kill("fork server")),
]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A session whose tests come to harm from outside, each at a stage of its own."""
    project = Kept(tmp_path_factory.mktemp("harmed"))
    (project.path / "tox.ini").write_text(INI)
    (at, harm), *then = STEPS
    return harmed(project, HARMED.replace("NAMES", repr(NAMES)), at=at, harm=harm, then=then)


def test_each_harm_fails_its_test_alone_and_leaves_nothing(outcome: Outcome) -> None:
    """A scheduler that is lost before its test is replaced."""
    verdicts = {f"test_it[{name}]": "failed" for name in NAMES}
    verdicts |= {"test_it[early]": "error", "test_it[lone]": "error", "test_it[late]": "passed"}
    assert outcome.verdicts == verdicts, outcome.output
    assert outcome.exit_code == 1
    outcome.expect_nothing_left()


@pytest.mark.parametrize("name", ["closing", "fetching", "assessing"])
def test_the_log_is_kept_of_a_scheduler_killed_at_any_stage(outcome: Outcome, name: str) -> None:
    assert outcome.results[f"test_it[{name}]"].troubles
    assert "scheduler.log" in outcome.kept


def test_a_process_that_is_killed_while_starting_is_told(outcome: Outcome) -> None:
    for owner in ("scheduler's", "workers'"):
        assert re.search(
            f"schedprof: the {owner} process .* was killed by signal 9 while starting",
            outcome.output,
        )
