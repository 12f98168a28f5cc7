"""Tests of comparisons in virtual time: a single round of each session is exact."""

from __future__ import annotations

import shutil
import sys

import injection
import pytest
from measured import compare
from support import Project

from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.metric import CLIENT_BYTECODES
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.baselines import load

OPTIONS = ("--schedprof-cluster=virtual", "--schedprof-workers=8", "--schedprof-rounds=1")

BODY = """
import concurrent, sys, types
from injection import plant

@pytest.fixture
def called_by_stealing(schedprof_scheduler):
    run = schedprof_scheduler.client.run_on_scheduler
    if IS_CHANGED:
        run(plant, "distributed.stealing", "WorkStealing.steal_time_ratio", "_ = None")
        run(plant, "distributed.scheduler", "SchedulerState.worker_objective", "_ = None")

@pytest.mark.schedprof(backend="counts",
    cluster_options={"duration": "exponential(50ms)", "nbytes": "1MB"})
def test_scheduler(schedprof_scheduler, called_by_stealing):
    client = schedprof_scheduler.client
    heavy = client.submit(inc, 0, workers=["0"], pure=False)
    futures = client.map(lambda x, y: x, range(60), y=heavy, pure=False)
    wait(client.submit(sum, futures))

@pytest.mark.schedprof(backend="counts")
def test_modules(schedprof_scheduler):
    for number in range(2000 if IS_CHANGED else 1):
        sys.modules[f"imported_{number}"] = types.ModuleType("imported")
    wait(schedprof_scheduler.client.map(lambda x: concurrent and x, range(30), pure=False))

@pytest.fixture
def dear_client():
    if IS_CHANGED:
        plant("distributed.client", "Client.map", "for _ in range(4_000): pass")
        plant("distributed.client", "Client._release_key", "for _ in range(40): pass")

@pytest.mark.schedprof(backend="counts")
def test_client(schedprof_scheduler, dear_client):
    wait(schedprof_scheduler.client.map(lambda x: x, range(30), pure=False))
"""

RISEN = {
    "test_scheduler": {
        ("bytecodes", "distributed.stealing:WorkStealing.steal_time_ratio"),
        # It is called only now and then, so a record has it in a line with others.
        ("bytecodes", "distributed.scheduler:<others-worker-choice>"),
    },
    # To send a function that uses a package, cloudpickle looks through all imported modules.
    "test_modules": set(),
    # One of these runs on the thread of the test, one on that of the event loop.
    "test_client": {
        (CLIENT_BYTECODES, "distributed.client:Client.map"),
        (CLIENT_BYTECODES, "distributed.client:Client._release_key"),
        (CLIENT_BYTECODES, ""),
    },
}
"""What is dearer in the changed session, by test. On other clusters these counts scatter."""


@pytest.fixture(autouse=True)
def prepared(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions import what changes the scheduler."""
    monkeypatch.chdir(project.path)
    shutil.copy(injection.__file__, project.path)


def session(project: Project, *options: str, is_changed: bool = False) -> None:
    project.run_test(BODY.replace("IS_CHANGED", f"{is_changed}"), *OPTIONS, *options)


def sessions(project: Project) -> list[dict[str, Result]]:
    """Return the results of each session by test, the first session first."""
    directories = sorted((project.path / ".schedprof").glob("2*"))
    loaded = [load(str(directory), str(project.path)).results for directory in directories]
    return [
        {result.test_id.partition("::")[2]: result for result in baseline} for baseline in loaded
    ]


def subjects(comparison: Comparison, outcome: Outcome) -> set[tuple[str, str]]:
    return {(change.metric, change.subject) for change in comparison.of(outcome)}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_round_tells_each_difference(project: Project, apart: None) -> None:
    session(project, "--schedprof-save=main")
    session(project, "--schedprof-compare=main")
    session(project, "--schedprof-compare=main", is_changed=True)
    _, same, changed = sessions(project)
    for name, result in same.items():
        (comparison,) = result.comparisons
        assert comparison.changes == (), name
        assert comparison.same > 100
    for name, risen in RISEN.items():
        (comparison,) = changed[name].comparisons
        assert subjects(comparison, Outcome.REGRESSED) == risen
    (back,) = compare((changed["test_client"],), (same["test_client"],)).comparisons
    assert subjects(back, Outcome.IMPROVED) == RISEN["test_client"]


LIMITED = """
import sys
from injection import plant

inc.__qualname__ = "inc"  # sent by its name, as a user's function is

@pytest.mark.schedprof("messages_out <= 3.5", "bytes_out <= 800B", backend="counts")
@pytest.mark.parametrize("statement", ["", "self.worker_send(ts.processing_on.address, {message})"])
def test_messages(schedprof_scheduler, statement):
    client, place = schedprof_scheduler.client, "SchedulerState._task_to_msg"
    client.run_on_scheduler(plant, "distributed.scheduler", place, statement)
    with schedprof_scheduler.measure():
        wait(client.map(inc, range(50), pure=False))

@pytest.mark.schedprof("stall(p50) <= 100ms", "stall(distributed.scheduler:*) <= 60s",
    backend="stalls")
def test_stalls(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(200), pure=False))

@pytest.mark.schedprof("{metric}(distributed.client:Client.map) <= 100000", "{metric} <= 1",
    backend="counts")
def test_client(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(lambda x: x, range(30), pure=False))

def test_nothing_stays_behind():
    assert sys.gettrace() is None
    if hasattr(sys, "monitoring"):
        assert not any(sys.monitoring.get_tool(number) for number in (3, 4))

@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="tools have numbers of their own")
@pytest.mark.schedprof("{metric} <= 1", backend="counts")
def test_debugger(schedprof_scheduler):
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

MESSAGE = {"op": "remove-replicas", "keys": [], "stimulus_id": "planted" + 300 * "-"}
"""Makes a worker do nothing."""


def test_limits_bound_messages_and_the_client(project: Project, apart: None) -> None:
    body = LIMITED.format(message=MESSAGE, metric=CLIENT_BYTECODES)
    run = project.run_test(body, *OPTIONS)
    is_traced = not hasattr(sys, "monitoring")
    run.assert_outcomes(passed=3 + is_traced, failed=2, skipped=not is_traced)
    for limit in ("messages_out <= 3.5", "bytes_out <= 800B", f"{CLIENT_BYTECODES} <= 1"):
        run.stdout.fnmatch_lines([f"*broken: {limit}:*"])
    backends = {name: result.backends[0] for name, result in project.results().items()}

    # One more message to a worker for each task is counted exactly.
    before, after = (backends[f"test_messages[{name}]"].costs for name in ("", "statement1"))
    assert before
    assert after
    assert after.whole["messages_out"] - before.whole["messages_out"] == 50
    assert after.whole["messages_in"] == before.whole["messages_in"]
    assert after.whole["bytes_in"] == before.whole["bytes_in"]
    assert 50 * 340 < after.whole["bytes_out"] - before.whole["bytes_out"] < 50 * 400

    # Hollow workers do not occupy the loop, and the scheduler does.
    stalls = backends["test_stalls"].costs
    assert stalls
    occupants = [cost.function for cost in stalls.functions]
    assert occupants
    assert not any(name.startswith("pytest_schedprof") for name in occupants)

    assert backends["test_client"].limits[0].verdict.value == "pass"
    if is_traced:  # a debugger keeps the trace function, so only the scheduler is counted
        debugged = backends["test_debugger"]
        assert debugged.costs
        assert debugged.costs.whole["bytecodes"] > 0
        assert CLIENT_BYTECODES not in debugged.costs.whole
        assert debugged.limits[0].verdict.value == "inconclusive"
