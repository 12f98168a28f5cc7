"""Tests specific to counts: what is exact, what is counted, and what is not.

Some look at code which was not there when the recording began, and at a user's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from at_work import inc
from distributed import Client, scheduler, wait
from distributed.comm import tcp
from distributed.diagnostics.plugin import SchedulerPlugin
from injection import plant, uproot
from measured import compare, measured

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.counts import CountsBackend
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.judge.figures import BY_TIMES, TIMES
from pytest_schedprof.measuring.assessment import assess
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.profile import PACKAGES, CostProfile, is_work
from pytest_schedprof.model.result import BackendResult

TASKS = 50
STATE_MACHINE = "distributed.scheduler:SchedulerState."


def record(
    cluster: LocalProcesses,
    control: Control,
    backend: CountsBackend,
    rounds: int = 1,
    change: Any = None,
) -> list[CostProfile]:
    """Costs of so many rounds of independent tasks, each after the change of the scheduler."""
    recorder = Recorder(control, [backend], 200.0)
    for _ in range(rounds):
        with Client(cluster.address) as client, recorder.round():
            if change:
                client.run_on_scheduler(change)
            wait(client.map(inc, range(TASKS), pure=False))
        clean(control)
    assert recorder.errors == []
    contents = [segment.raw[backend.name].content for (segment,) in recorder.rounds]
    return [backend.read(content, control.name_places) for content in contents]


@pytest.fixture(scope="module")
def cluster() -> Any:
    """A cluster with a worker, unlike that of the other tests here, which knows the task prefix.

    With several, costs also depend on which of them was idle when.
    """
    cluster = LocalProcesses(1, timeout_s=200)
    with Client(cluster.address) as client, Control(cluster.address) as control:
        wait(client.map(inc, range(TASKS), pure=False))
        clean(control)
    yield cluster
    cluster.close()


def full_collections(dask_scheduler: Any = None) -> int:
    import gc

    return int(gc.get_stats()[-1]["collections"])


@pytest.mark.parametrize("is_repeated", [False, True])
def test_rounds_that_are_compared_begin_without_garbage(
    control: Control, is_repeated: bool
) -> None:
    recorder = Recorder(control, [], 10.0, is_repeated=is_repeated)
    before = control.call(full_collections)
    with recorder.round():
        assert control.call(full_collections) - before == is_repeated


@pytest.fixture(scope="module")
def identical(cluster: LocalProcesses) -> list[CostProfile]:
    """Costs of three rounds of the same work, counted without options."""
    with Control(cluster.address) as control:
        return record(cluster, control, CountsBackend(rate_hz=100, options={}), rounds=3)


@pytest.mark.slow
def test_identical_rounds_cost_the_state_machine_exactly_the_same(
    identical: list[CostProfile],
) -> None:
    figures = [of_the_state_machine(profile) for profile in identical]
    assert len(figures[0]) > 40
    # A task goes from released through waiting, queued, processing, memory and released to
    # forgotten; the first tasks are not queued.
    assert 5 * TASKS < figures[0]["calls", f"{STATE_MACHINE}_transition"] < 6 * TASKS
    assert figures[0] == figures[1] == figures[2]


def of_the_state_machine(profile: CostProfile) -> dict[tuple[str, str], float]:
    """Its figures, without those that depend on how long workers took."""
    return {
        (metric, name): amount
        for name, amounts in profile.functions.items()
        for metric, amount in amounts.items()
        if STATE_MACHINE in name and (metric, name) not in BY_TIMES
    }


def store_slowly(is_slow: bool, dask_worker: Any = None) -> None:
    """Let a worker take longer to store a result than what it tells the scheduler about, or not."""
    import time

    class SlowStore(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            time.sleep(0.006)
            super().__setitem__(key, value)

    dask_worker.state.data = SlowStore() if is_slow else {}


@pytest.mark.slow
def test_how_long_workers_took_to_store_results_is_no_change_of_the_scheduler(
    cluster: LocalProcesses, control: Control
) -> None:
    quick = counted_rounds(cluster, control, [""] * 3)
    with Client(cluster.address) as client:
        client.run(store_slowly, is_slow=True)
        slow = counted_rounds(cluster, control, [""] * 3)
        client.run(store_slowly, is_slow=False)
    times = [
        {function.function: function.total["calls"] for function in side.costs.functions}[TIMES]
        for side in (quick, slow)
        if side.costs
    ]
    assert times[0] < 2 * 3 * TASKS <= times[1]
    (comparison,) = compare([measured(quick)], [measured(slow)]).comparisons
    assert not comparison.of(Outcome.REGRESSED)


def get_and_set(dask_scheduler: Any = None) -> None:
    """Set a property 50 times and get it 100 times; creating the task adds a few calls."""
    dask_scheduler.new_task("x", None, "released")
    task = dask_scheduler.tasks.pop("x")
    for _ in range(50):
        task.state = task.state
        assert task.state == "released"


@pytest.mark.slow
def test_calls_alone_are_the_same_calls(
    cluster: LocalProcesses, control: Control, identical: list[CostProfile]
) -> None:
    backend = CountsBackend(rate_hz=100, options={"bytecodes": "false"})
    assert "bytecodes" not in backend.metrics
    (profile,) = record(cluster, control, backend)
    name = f"{STATE_MACHINE}_transition"
    assert profile.functions[name] == {"calls": identical[0].functions[name]["calls"]}


def test_modules_that_limits_name_are_counted_too(
    cluster: LocalProcesses, control: Control
) -> None:
    patterns = ["distributed.batched:BatchedSend.send", "distributed.comm.*:TCP.*"]
    options = {"modules": "distributed.scheduler"}
    backend = CountsBackend(rate_hz=100, options=options, patterns=patterns)
    (profile,) = record(cluster, control, backend)
    assert profile.functions["distributed.batched:BatchedSend.send"]["calls"] >= TASKS
    assert any(name.startswith("distributed.comm.tcp:TCP.") for name in profile.functions)
    settings = backend.settings["modules"]
    assert settings == ["distributed.scheduler", "distributed.batched", "distributed.comm.*"]
    assert packages(profile) == {"distributed"}


def packages(profile: CostProfile) -> set[str]:
    return {name.partition(":")[0].partition(".")[0] for name in profile.functions}


@pytest.mark.slow
def test_words_stand_for_what_works_on_tasks_and_for_all_modules(
    cluster: LocalProcesses, control: Control
) -> None:
    scheduling = CountsBackend(rate_hz=100, options={"modules": "scheduling"})
    (default,) = record(cluster, control, scheduling)
    (every,) = record(cluster, control, CountsBackend(rate_hz=100, options={"modules": "all"}))
    assert packages(default) == {"dask", "distributed"}
    assert packages(every) >= {"dask", "distributed", "tornado", "toolz"}
    assert packages(every) <= set(PACKAGES)
    # The scheduler reads graphs in a thread beside its event loop.
    assert default.functions["distributed.scheduler:_materialize_graph"]["calls"] == 1
    # Others are called for the first task of a prefix only, or depend on time.
    each_task = {name for name, costs in default.functions.items() if costs["calls"] >= TASKS}
    assert each_task
    assert every.functions.keys() >= each_task
    messages = "distributed.batched:BatchedSend.send"
    assert every.functions[messages]["calls"] >= TASKS
    assert messages not in default.functions


def test_sums_are_of_the_functions_that_work_on_tasks_beside_messages_and_bytes(
    identical: list[CostProfile],
) -> None:
    profile = identical[0]
    for way in ("in", "out"):
        assert 2 * TASKS <= profile.whole[f"messages_{way}"] < 4 * TASKS
        assert profile.whole[f"bytes_{way}"] > 100 * TASKS
    assert packages(profile) >= {"cloudpickle", "dask", "distributed", "msgpack", "tornado"}
    assert not packages(profile) & {"asyncio", "logging", "psutil", "selectors"}
    for metric in ("calls", "bytecodes"):
        work = sum(costs[metric] for name, costs in profile.functions.items() if is_work(name))
        every = sum(costs[metric] for costs in profile.functions.values())
        assert profile.whole[metric] == work
        assert work < 0.9 * every


def test_what_the_clock_calls_is_not_counted_and_a_property_has_one_count(
    cluster: LocalProcesses, control: Control
) -> None:
    backend = CountsBackend(rate_hz=100, options={})
    recording = backend.start(control, timeout_s=200)
    control.call(beat_heart)
    control.call(get_and_set)
    profile = backend.read(recording.stop(timeout_s=200).content, control.name_places)
    assert "distributed.scheduler:Scheduler.heartbeat_worker" not in profile.functions
    assert "distributed.scheduler:heartbeat_interval" not in profile.functions
    assert "distributed.scheduler:Scheduler.get_worker_service_addr" in profile.functions
    assert profile.functions["distributed.scheduler:TaskState.state"]["calls"] // 10 == 15


def beat_heart(dask_scheduler: Any = None) -> None:
    """Make a heartbeat, one that fails, and a call that is not driven by the clock."""
    worker = next(iter(dask_scheduler.workers))
    metrics = dict(dask_scheduler.workers[worker].metrics)
    dask_scheduler.heartbeat_worker(address=worker, metrics=metrics, resolve_address=False)
    try:
        dask_scheduler.heartbeat_worker(address=worker, metrics=None, resolve_address=False)
    except (TypeError, KeyError):
        pass
    dask_scheduler.get_worker_service_addr(worker, "none")


def trace(dask_scheduler: Any = None) -> None:
    """Trace as a debugger or a coverage tool does."""
    import sys

    if hasattr(sys, "monitoring"):
        for number in (3, 4):
            sys.monitoring.use_tool_id(number, "somebody")
    else:
        sys.settrace(lambda *event: None)


def untrace(dask_scheduler: Any = None) -> None:
    import sys

    if hasattr(sys, "monitoring"):
        for number in (3, 4):
            sys.monitoring.free_tool_id(number)
    sys.settrace(None)


def test_another_tracer_is_refused_and_left_alone(control: Control) -> None:
    control.call(trace)
    try:
        with pytest.raises(RecordingError, match=r"cannot work beside .*pytest --no-cov"):
            CountsBackend(rate_hz=100, options={}).start(control, timeout_s=200)
    finally:
        control.call(untrace)


def take_hook(dask_scheduler: Any = None) -> None:
    import sys

    if hasattr(sys, "monitoring"):
        for number in (3, 4):
            if sys.monitoring.get_tool(number):
                sys.monitoring.register_callback(number, sys.monitoring.events.PY_START, None)
    sys.settrace(None)


def counting(control: Control) -> Recorder:
    return Recorder(control, [CountsBackend(rate_hz=100, options={})], 200.0)


def test_counts_are_doubted_if_another_tool_took_the_hook(
    cluster: LocalProcesses, control: Control
) -> None:
    recorder = counting(control)
    with Client(cluster.address) as client, recorder.round():
        control.call(take_hook)
        wait(client.map(inc, range(TASKS), pure=False))
    clean(control)
    ((segment,),) = recorder.rounds
    made = r"counts saw \d+ of the scheduler's [1-9]\d\d transitions: another tool"
    assert re.match(made, segment.raw["counts"].doubt)


def test_calls_of_the_agent_are_no_messages_of_the_test(control: Control) -> None:
    backend = CountsBackend(rate_hz=100, options={})
    recording = backend.start(control, timeout_s=200)
    control.call(facts.wait_until_idle, 1.0)
    raw = recording.stop(timeout_s=200)
    whole = backend.read(raw.content, control.name_places).whole
    names = [f"{what}_{way}" for what in ("messages", "bytes") for way in ("in", "out")]
    assert [whole.get(name, 0) for name in names] == [0] * 4


def reset_transitions(dask_scheduler: Any = None) -> None:
    dask_scheduler.transition_counter = 0


def take_prefixes(dask_scheduler: Any = None) -> None:
    dask_scheduler.prefixes_taken = dask_scheduler.task_prefixes
    del dask_scheduler.task_prefixes


def put_prefixes_back(dask_scheduler: Any = None) -> None:
    dask_scheduler.task_prefixes = dask_scheduler.__dict__.pop("prefixes_taken")


def test_recordings_end_if_the_schedulers_counters_were_reset_or_cannot_be_read(
    cluster: LocalProcesses, control: Control
) -> None:
    reset, unread, following = (counting(control) for _ in range(3))
    with Client(cluster.address) as client:
        wait(client.map(inc, range(5), pure=False))
        with reset.round():
            control.call(reset_transitions)
    assert "counters ran backwards" in str(reset.errors[0])
    with unread.round():  # it begins, so the former has ended
        control.call(take_prefixes)
    control.call(put_prefixes_back)
    assert "task_prefixes" in str(unread.errors[0])
    with following.round():
        pass
    assert following.errors == []


BEFORE_OF_ROUND = "SchedulerState._add_to_processing"


def counted_rounds(
    cluster: LocalProcesses, control: Control, statements: list[str]
) -> BackendResult:
    """Count rounds with another statement planted in each; an empty one is unchanged code."""
    backend = CountsBackend(rate_hz=100, options={"modules": "distributed.scheduler"})
    recorder = Recorder(control, [backend], 200.0)
    for statement in statements:
        with Client(cluster.address) as client:
            if statement:
                planted = {"qualname": BEFORE_OF_ROUND, "statement": statement}
                client.run_on_scheduler(plant, module="distributed.scheduler", **planted)
            with recorder.round():
                wait(client.map(inc, range(TASKS), pure=False))
            client.run_on_scheduler(uproot, module="distributed.scheduler")
        clean(control)
    (result,) = assess(recorder, (), None).backends
    return result


@pytest.mark.slow
def test_a_function_whose_rounds_differ_is_told_though_its_mean_is_the_same(
    cluster: LocalProcesses, control: Control
) -> None:
    """It loops 200 times in each round of one side, and 0, 200 and 400 times on the other."""
    loops = [f"for _ in range({times}): pass" for times in (1, 200, 400)]
    steady = counted_rounds(cluster, control, [loops[1]] * 3)
    wavering = counted_rounds(cluster, control, loops)
    name = f"distributed.scheduler:{BEFORE_OF_ROUND}"
    (comparison,) = compare([measured(steady)], [measured(wavering)]).comparisons
    (change,) = [
        change
        for change in comparison.changes
        if (change.metric, change.subject) == ("bytecodes", name)
    ]
    assert change.outcome is Outcome.UNDECIDED
    assert "differs between rounds" in change.note
    assert abs(change.difference) < 0.02 * change.before
    (back,) = compare([measured(wavering)], [measured(steady)]).comparisons
    assert name not in {change.subject for change in back.of(Outcome.UNDECIDED)}


def counted_beside(cluster: LocalProcesses, control: Control, change: Any) -> CostProfile:
    """Costs of a window that begins with a change of the scheduler."""
    backend = CountsBackend(rate_hz=100, options={})
    (profile,) = record(cluster, control, backend, change=change)
    return profile


@pytest.fixture
def nothing_stays_changed(control: Control) -> Iterator[None]:
    control.call(put_back)
    yield
    control.call(put_back)


def put_back(dask_scheduler: Any = None) -> None:
    """Put back the transition of the first call, and drop the user's plugin."""
    from distributed import scheduler

    own = scheduler.SchedulerState._transition
    own = vars(scheduler).setdefault("_transition_before", own)
    scheduler.SchedulerState._transition = own  # type: ignore[method-assign]
    for name, plugin in list(dask_scheduler.plugins.items()):
        if type(plugin).__name__ == "Watching":
            dask_scheduler.remove_plugin(name=name)


def replace_transition(dask_scheduler: Any) -> None:
    from distributed.scheduler import SchedulerState

    before = SchedulerState._transition

    def slower(self: Any, *args: Any, **keywords: Any) -> Any:
        for _ in range(10):
            pass
        return before(self, *args, **keywords)

    names: dict[str, Any] = {"before": slower, "__name__": "made_up"}
    text = "def made(self, *args, **keywords): return before(self, *args, **keywords)"
    exec(text, names)
    SchedulerState._transition = names["made"]  # type: ignore[method-assign]


@pytest.mark.usefixtures("nothing_stays_changed")
def test_functions_that_take_the_place_of_another_in_the_window_also_one_made_by_exec(
    cluster: LocalProcesses, control: Control
) -> None:
    profile = counted_beside(cluster, control, replace_transition)
    before = profile.functions["distributed.scheduler:SchedulerState._transition"]
    (name,) = [name for name in profile.functions if name.endswith("slower")]
    assert name.startswith(f"{__name__}:")
    assert profile.functions[name]["calls"] == before["calls"] >= 5 * TASKS
    assert profile.functions[name]["bytecodes"] >= 20 * before["calls"]
    assert profile.whole["bytecodes"] >= before["bytecodes"] + 20 * before["calls"]
    assert profile.functions["made_up:made"]["calls"] == before["calls"]


def import_and_call(dask_scheduler: Any) -> None:
    import sys

    sys.modules.pop("dask.layers", None)
    import dask.layers

    assert "dask.layers" in sys.modules
    for _ in range(7):
        dask.layers.ArrayBlockwiseDep(((1, 1),)).__repr__()


class Watching(SchedulerPlugin):
    """A plugin that does something at each transition."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **more: Any) -> None:
        self.note(finish)

    def note(self, finish: str) -> None:
        self.seen.append(finish)


@pytest.mark.usefixtures("nothing_stays_changed")
def test_a_plugin_of_the_user(cluster: LocalProcesses, control: Control) -> None:
    with Client(cluster.address) as client:
        client.register_plugin(Watching())
    (profile,) = record(cluster, control, CountsBackend(rate_hz=100, options={}))
    transitions = profile.functions["distributed.scheduler:SchedulerState._transition"]["calls"]
    called = profile.functions[f"{__name__}:Watching.transition"]["calls"]
    # One transition can lead to others, which are told together.
    assert 5 * TASKS <= called <= transitions
    assert profile.functions[f"{__name__}:Watching.note"]["calls"] == called


def work_in_thread(dask_scheduler: Any) -> None:
    """Call functions of dask in a thread until the scheduler has finished its tasks."""
    import threading

    import dask.utils

    begun = threading.Event()

    def work() -> None:
        for _ in range(5):
            dask.utils.key_split("x-1")
        begun.set()
        for _ in range(20000):
            dask.utils.parse_bytes("1 MiB")

    threading.Thread(target=work).start()
    begun.wait(200)
    for _ in range(3):
        dask.utils.parse_bytes("1 kiB")


def copy_deeply(dask_scheduler: Any) -> None:
    import copy

    for _ in range(100):
        copy.deepcopy([[1, 2], [3, 4]])


def do_more(dask_scheduler: Any) -> None:
    import_and_call(dask_scheduler)
    copy_deeply(dask_scheduler)
    work_in_thread(dask_scheduler)


@pytest.fixture(scope="module")
def beside(cluster: LocalProcesses) -> CostProfile:
    """Costs of a window in which the scheduler also imports, copies, and works in a thread."""
    with Control(cluster.address) as control:
        return counted_beside(cluster, control, do_more)


@pytest.mark.slow
def test_what_else_happens_in_the_window_moves_no_figure_of_the_state_machine(
    cluster: LocalProcesses, control: Control, beside: CostProfile
) -> None:
    alone = counted_beside(cluster, control, lambda dask_scheduler: None)
    assert of_the_state_machine(beside) == of_the_state_machine(alone)


@pytest.mark.slow
def test_a_module_that_is_imported_in_the_window(beside: CostProfile) -> None:
    called = "dask.layers:ArrayBlockwiseDep.__init__"
    assert beside.functions[called]["calls"] == 7
    body = beside.functions["dask.layers:<module>"]
    assert body["calls"] == 1
    assert body["bytecodes"] > 100
    imported = {name for name in beside.functions if name.startswith("dask.layers:")}
    assert {name for name in imported if not name.startswith(called)} == {"dask.layers:<module>"}


@pytest.mark.slow
def test_other_threads_are_not_counted(beside: CostProfile) -> None:
    assert beside.functions["dask.utils:parse_bytes"]["calls"] == 3
    per_call = beside.functions["dask.utils:parse_bytes"]["bytecodes"] / 3
    assert 10 < per_call < 1000
    assert not any("work_in_thread.<locals>.work" in name for name in beside.functions)


@pytest.mark.slow
def test_a_deep_copy_is_work(beside: CostProfile) -> None:
    assert beside.functions["copy:deepcopy"]["calls"] >= 300
    others = sum(
        costs["bytecodes"]
        for name, costs in beside.functions.items()
        if is_work(name) and name != "copy:deepcopy"
    )
    assert beside.whole["bytecodes"] == others + beside.functions["copy:deepcopy"]["bytecodes"]


def test_a_start_that_is_interrupted_leaves_everything_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = InProcess()

    def interrupt(self: Any) -> int:
        assert vars(tcp) != before[0]  # it is asked last, when all is in place
        raise KeyboardInterrupt

    before = (dict(vars(tcp)), dict(vars(scheduler)), sys.gettrace())
    monkeypatch.setattr(type(process.schedulers), "transition_counter", property(interrupt))
    with pytest.raises(KeyboardInterrupt):
        CountsBackend(rate_hz=100, options={}).start(process, timeout_s=200)
    assert (vars(tcp), vars(scheduler), sys.gettrace()) == before
    process.leave(())
