"""Sessions whose processes are killed."""

from __future__ import annotations

import re
import signal

import pytest
from harness import Harm, Outcome, harmed, kill, no_harm, no_room, together
from support import Project

pytestmark = pytest.mark.slow

WORKING = """
@pytest.mark.schedprof(backend="pyspy")
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
    reached("worked")
"""


def lines(outcome: Outcome, start: str) -> list[str]:
    """Return the lines of the output that begin so."""
    return [line for line in outcome.output.splitlines() if line.startswith(start)]


STANDING_STILL = """
import collections, itertools, threading

def stay_in_c():
    collections.deque(itertools.repeat(None), maxlen=0)

@pytest.mark.schedprof(backend="counts")
def test_it(schedprof_scheduler):
    stay = schedprof_scheduler.client.run_on_scheduler
    if IS_BUSY:
        threading.Thread(target=stay, args=(stay_in_c,), daemon=True).start()
    reached("worked")
"""


@pytest.mark.parametrize(
    ("cluster", "is_busy"), [("local", True), ("local", False), ("virtual", True)]
)
def test_session_killed_whose_scheduler_stands_still(
    project: Project, cluster: str, is_busy: bool
) -> None:
    body = STANDING_STILL.replace("IS_BUSY", str(is_busy))
    harms = [] if is_busy else [kill("scheduler", signal.SIGSTOP)]
    harm = together(*harms, kill("session"))
    outcome = harmed(project, body, f"--schedprof-cluster={cluster}", at="worked", harm=harm)
    assert outcome.exit_code == -signal.SIGKILL
    assert not outcome.processes
    assert {*outcome.temporary} <= {"dask-scratch-space"}  # dask's own


def test_session_killed_whose_watchdog_stands_still(project: Project) -> None:
    harm = together(kill("guard", signal.SIGSTOP), kill("session"))
    assert not harmed(project, WORKING, at="worked", harm=harm).processes


def test_session_interrupted(project: Project) -> None:
    outcome = harmed(project, WORKING, at="worked", harm=kill("session", signal.SIGINT))
    assert outcome.exit_code == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in outcome.output
    assert lines(outcome, "artifacts of 1 profiled test: ")
    assert [test.outcome for test in project.run_record().tests] == ["interrupted"]
    record = outcome.results["test_it"]
    assert record.outcome == "interrupted"
    assert record.backends[0].artifacts == ("scheduler.pyspy.speedscope.json",)
    assert "scheduler.pyspy.speedscope.json" in outcome.kept
    outcome.expect_nothing_left()


def test_no_room_for_the_files_of_a_test(project: Project) -> None:
    outcome = harmed(project, WORKING, at="assessing", harm=no_room("session", 2000))
    assert outcome.verdicts == {"test_it": "failed"}, outcome.output
    refused = "\n".join(lines(outcome, "schedprof: cannot write "))
    for name in ("scheduler.pyspy.speedscope.json", "result.json"):
        assert f"{name}': File too large; make room or choose" in refused, outcome.output
    assert not any(name.endswith(".part") for name in outcome.kept)
    outcome.expect_nothing_left()


FORKING = """
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks of threaded processes
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
    if os.fork() == 0:
        time.sleep(900)
        os._exit(0)
    reached("forked")
"""


@pytest.mark.parametrize(
    ("harm", "status"),
    [(no_harm, 0), (kill("session"), -signal.SIGKILL)],
    ids=["session ends", "session is killed"],
)
def test_body_that_forks_a_child_which_runs_on(project: Project, harm: Harm, status: int) -> None:
    """The child holds the pipes to the cluster's processes, which end all the same."""
    outcome = harmed(project, FORKING, at="forked", harm=harm, lasting=1)
    assert outcome.exit_code == status, outcome.output
    (left,) = outcome.processes
    assert left.startswith("other: ")  # the test's own
    assert not outcome.temporary


@pytest.mark.parametrize(
    "harm",
    [
        "os.closerange(3, 4096)",
        "time.time = lambda: 1 / 0",
        "time.time = lambda now=time.time: now() + 1e6",
    ],
)
def test_body_that_breaks_its_own_process_hangs_no_session(project: Project, harm: str) -> None:
    """What the next test makes of a broken process is its own matter."""
    outcome = harmed(project, BREAKING.format(harm=harm), at="worked")
    assert "test_it" in outcome.verdicts, outcome.output
    assert not outcome.processes


BREAKING = """
@pytest.mark.schedprof(backend="cputime")
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)
    reached("worked")
    {harm}

@pytest.mark.schedprof(backend="cputime")
def test_next(schedprof_scheduler):
    pass
"""


WITHOUT_WORKERS = """
import signal
from pytest_schedprof.clusters.own import OwnCluster

@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    watch = OwnCluster.watch  # how long a start may take stays as it is
    monkeypatch.setattr(OwnCluster, "watch", lambda cluster, patience_s: watch(cluster, 5))

@pytest.mark.schedprof(backend="cputime")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGSTOP"])
def test_it(schedprof_scheduler, name):
    client = schedprof_scheduler.client
    for pid in set(client.run(os.getpid).values()):
        os.kill(pid, getattr(signal, name))
    client.submit(inc, 1).result()

@pytest.mark.schedprof(backend="cputime")
def test_next(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(inc, 1).result() == 2
"""


def test_body_whose_workers_are_lost_does_not_wait_for_ever(project: Project) -> None:
    outcome = harmed(project, WITHOUT_WORKERS)
    verdicts = {"test_it[SIGTERM]": "failed", "test_it[SIGSTOP]": "failed", "test_next": "passed"}
    assert outcome.verdicts == verdicts, outcome.output
    killed, stopped = lines(outcome, "schedprof: the scheduler's process ")
    assert re.search("was ended: the workers' process .* by signal 15, and no worker is", killed)
    assert "was ended: signals stopped all processes of workers for 5 s" in stopped
    outcome.expect_nothing_left()
