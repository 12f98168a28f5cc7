"""Tests of objects: what a held task takes and a released one leaves, on real schedulers."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import distributed.scheduler
import pytest
from distributed import Client, wait
from injection import plant, uproot
from measured import measured

from pytest_schedprof.backends.objects import ObjectsBackend
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.measuring.assessment import assess
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult

TASKS = 1000
MODULE = "distributed.scheduler"
TASK_STATE = f"{MODULE}:TaskState"

HOLDS_MORE = ("SchedulerState._add_to_processing", "ts.erred_on = set()")
"""One more set for each task, as long as it is held."""

LEAKS = (
    "SchedulerState._propagate_forgotten",
    "vars(type(self)._propagate_forgotten).setdefault('leak', []).append([])",
)
"""One list for each task that is never freed."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    cluster = SimulatedCluster(8, timeout_s=30)
    yield cluster
    cluster.close()


@pytest.fixture
def client(cluster: SimulatedCluster) -> Iterator[Client]:
    with Client(cluster.address, set_as_default=False) as client:
        yield client
        client.run_on_scheduler(uproot, module=MODULE)


@pytest.fixture
def work(client: Client) -> Callable[[], list[Any]]:
    return lambda: wait_for_all(client, client.map(inc, range(TASKS), pure=False))


def inc(number: int) -> int:
    return number + 1


def wait_for_all(client: Client, futures: list[Any]) -> list[Any]:
    with client.as_current():
        wait(futures, timeout=60)
    return futures


def recorded(control: Control, work: Callable[[], object], rounds: int = 2) -> BackendResult:
    """Measure a body that drops its futures at its end."""
    recorder = Recorder(control, [ObjectsBackend(rate_hz=100, options={})], 30.0)
    for _ in range(rounds):
        with recorder.round():
            work()
        clean(control)
    return result_of(recorder)


def result_of(recorder: Recorder) -> BackendResult:
    assessment = assess(recorder, (), None)
    assert assessment.troubles == ()
    (result,) = assessment.backends
    return result


def whole(result: BackendResult, metric: str) -> float:
    assert result.costs
    return result.costs.whole[metric]


def of_types(result: BackendResult, metric: str) -> dict[str, float]:
    assert result.costs
    return {e.function: e.total[metric] for e in result.costs.functions if metric in e.total}


def compared(before: BackendResult, after: BackendResult) -> Comparison:
    (comparison,) = compare([measured(before)], [measured(after)]).comparisons
    return comparison


def changed(comparison: Comparison, outcome: Outcome) -> dict[tuple[str, str], float]:
    changes = {
        (change.metric, change.subject): change.difference for change in comparison.of(outcome)
    }
    return {
        name: round(difference, 2) for name, difference in changes.items() if name[0] != "blocks"
    }


@pytest.mark.slow
def test_a_task_takes_the_same_objects_each_time(
    control: Control, work: Callable[[], object]
) -> None:
    results = [recorded(control, work, rounds=1) for _ in range(3)]
    types = [of_types(result, "objects") for result in results]
    assert types[0] == types[1] == types[2]  # the first round is of a scheduler that never worked
    assert types[0][TASK_STATE] == 1.0
    assert whole(results[0], "objects") == sum(types[0].values())
    blocks = [whole(result, "blocks") for result in results[1:]]
    assert blocks[0] == pytest.approx(blocks[1], rel=0.03)
    assert blocks[0] > whole(results[0], "objects")


def look_up(dask_scheduler: Any = None) -> int:
    """Read the lines of a file, as dask's profile of the event loop does at any time."""
    return len(linecache.getlines(distributed.scheduler.__file__))


def forget(dask_scheduler: Any = None) -> None:
    linecache.clearcache()


@pytest.mark.slow
def test_lines_of_source_that_dask_looked_up_are_not_counted(
    control: Control, client: Client, work: Callable[[], object]
) -> None:
    def work_and_look_up() -> None:
        work()
        assert client.run_on_scheduler(look_up) > 5 * TASKS

    before = recorded(control, work)
    client.run_on_scheduler(forget)
    after = recorded(control, work_and_look_up, rounds=1)
    left = [whole(result, "blocks_leaked") for result in (before, after)]
    assert left[1] == pytest.approx(left[0], abs=1)


@pytest.mark.slow
def test_one_more_object_of_each_held_task_is_named_in_both_directions(
    control: Control, client: Client, work: Callable[[], object]
) -> None:
    before = recorded(control, work, rounds=3)
    qualname, statement = HOLDS_MORE
    client.run_on_scheduler(plant, module=MODULE, qualname=qualname, statement=statement)
    after = recorded(control, work, rounds=3)
    one_more = {("objects", "builtins:set"): 1.0, ("objects", ""): 1.0}
    assert changed(compared(before, after), Outcome.REGRESSED) == one_more
    one_less = {name: -amount for name, amount in one_more.items()}
    assert changed(compared(after, before), Outcome.IMPROVED) == one_less
    assert whole(after, "blocks") > whole(before, "blocks") + 0.8
    assert changed(compared(before, before), Outcome.REGRESSED) == {}


@pytest.mark.slow
def test_a_leak_is_named_and_is_not_held(
    control: Control, client: Client, work: Callable[[], object]
) -> None:
    before = recorded(control, work)
    assert of_types(before, "objects_leaked") == {}
    qualname, statement = LEAKS
    client.run_on_scheduler(plant, module=MODULE, qualname=qualname, statement=statement)
    after = recorded(control, work)
    leak = {("objects_leaked", "builtins:list"): 1.0, ("objects_leaked", ""): 1.0}
    regressed = changed(compared(before, after), Outcome.REGRESSED)
    assert {
        name: amount for name, amount in regressed.items() if name[0] == "objects_leaked"
    } == leak
    assert (
        changed(compared(after, before), Outcome.IMPROVED).items()
        >= {("objects_leaked", "builtins:list"): -1.0}.items()
    )
    assert of_types(after, "objects") == of_types(before, "objects")
    assert whole(after, "blocks_leaked") > whole(before, "blocks_leaked") + 0.8


@pytest.mark.slow
def test_a_narrow_window_that_ends_while_tasks_are_held_is_the_same(
    control: Control, work: Callable[[], list[Any]]
) -> None:
    recorder = Recorder(control, [ObjectsBackend(rate_hz=100, options={})], 30.0)

    def body() -> None:
        with recorder.measure():
            held = work()
        assert len(held) == TASKS

    with recorder.round():
        body()
    assert of_types(result_of(recorder), "objects")[TASK_STATE] == 1.0
    assert of_types(result_of(recorder), "objects") == of_types(
        recorded(control, work, rounds=1), "objects"
    )


@pytest.mark.slow
def test_releases_wait_for_the_reading_and_keep_their_order(
    control: Control, client: Client
) -> None:
    """A key that is released and wanted again at once is computed again, as without a recording."""

    def body() -> None:
        for _ in range(3):
            futures = client.map(inc, range(TASKS), key=[f"again-{n}" for n in range(TASKS)])
            wait_for_all(client, futures)
            del futures

    result = recorded(control, body, rounds=1)
    assert of_types(result, "objects")[TASK_STATE] == 1.0


def test_limits_name_types(control: Control, work: Callable[[], object]) -> None:
    recorder = Recorder(control, [ObjectsBackend(rate_hz=100, options={})], 30.0)
    with recorder.round():
        work()
    limits = [
        f"objects({TASK_STATE}) <= 1",
        f"objects({TASK_STATE}) <= 0.9",
        "objects(distributed.scheduler:WorkerState) <= 0",  # does not grow with tasks
        "objects_leaked <= 0",
    ]
    assessment = assess(recorder, [parse_limit(limit) for limit in limits], None)
    assert assessment.troubles == ()
    verdicts = [limit.verdict for limit in assessment.backends[0].limits]
    assert verdicts == [Verdict.PASS, Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE]
    assert "rounds=2" in assessment.backends[0].limits[-1].note
    (error,) = assess(recorder, [parse_limit("objects(distributed:Nothing) <= 1")], None).errors
    assert "names nothing" in str(error)


@pytest.mark.parametrize(("tasks", "keep", "reason"), [
    (10, False, "10 were held at once"), (TASKS, True, "were still held"),
])  # fmt: skip
def test_what_cannot_be_told_is_no_figure(
    control: Control, client: Client, tasks: int, keep: bool, reason: str
) -> None:
    kept: list[Any] = []

    def body() -> None:
        futures = wait_for_all(client, client.map(inc, range(tasks), pure=False))
        kept.extend(futures if keep else ())

    recorder = Recorder(control, [ObjectsBackend(rate_hz=100, options={})], 30.0)
    with recorder.round():
        body()
    assessment = assess(recorder, [parse_limit("objects <= 7")], None)
    (limit,) = assessment.backends[0].limits
    assert limit.verdict is Verdict.INCONCLUSIVE
    assert reason in limit.note
