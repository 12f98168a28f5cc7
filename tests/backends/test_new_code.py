"""Tests that counts sees code which was not there when the recording began, and a user's code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, wait
from distributed.diagnostics.plugin import SchedulerPlugin

from pytest_schedprof.backends.counts import CountsBackend
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.judge.figures import BY_TIMES
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.profile import CostProfile, is_work

TASKS = 50
HERE = __name__


def inc(number: int) -> int:
    return number + 1


def counted(
    cluster: LocalProcesses, control: Control, change: Any, tasks: int = TASKS
) -> CostProfile:
    """Costs of a window that begins with a change of the scheduler."""
    backend = CountsBackend(rate_hz=100, options={})
    recorder = Recorder(control, [backend], 200.0)
    with Client(cluster.address) as client, recorder.round():
        client.run_on_scheduler(change)
        wait(client.map(inc, range(tasks), pure=False))
    clean(control)
    assert recorder.troubles == []
    ((segment,),) = recorder.rounds
    return backend.read(segment.raw["counts"].content, control.name_places)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalProcesses]:
    """Of one worker: with several, costs also depend on which of them was idle when."""
    cluster = LocalProcesses(1, timeout_s=200)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def alone(cluster: LocalProcesses) -> CostProfile:
    """Costs of a window in which nothing is changed."""
    with Control(cluster.address) as control:
        counted(cluster, control, do_nothing)  # creates the task prefix
        return counted(cluster, control, do_nothing)


@pytest.fixture(autouse=True)
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

    SchedulerState._transition = slower  # type: ignore[method-assign]


def test_a_function_that_takes_the_place_of_another_in_the_window(
    cluster: LocalProcesses, control: Control
) -> None:
    profile = counted(cluster, control, replace_transition)
    before = profile.functions["distributed.scheduler:SchedulerState._transition"]
    (name,) = [name for name in profile.functions if name.endswith("slower")]
    assert name.startswith(f"{HERE}:")
    assert profile.functions[name]["calls"] == before["calls"] >= 5 * TASKS
    assert profile.functions[name]["bytecodes"] >= 20 * before["calls"]
    assert profile.whole["bytecodes"] >= before["bytecodes"] + 20 * before["calls"]


def define(dask_scheduler: Any) -> None:
    from distributed.scheduler import SchedulerState

    names: dict[str, Any] = {"before": SchedulerState._transition, "__name__": "made_up"}
    text = "def made(self, *args, **keywords): return before(self, *args, **keywords)"
    exec(text, names)
    SchedulerState._transition = names["made"]  # type: ignore[method-assign]


def test_a_function_that_is_defined_by_exec_in_the_window(
    cluster: LocalProcesses, control: Control
) -> None:
    profile = counted(cluster, control, define)
    before = profile.functions["distributed.scheduler:SchedulerState._transition"]
    assert profile.functions["made_up:made"]["calls"] == before["calls"] >= 5 * TASKS


def import_and_call(dask_scheduler: Any) -> None:
    import sys

    sys.modules.pop("dask.layers", None)
    import dask.layers

    assert "dask.layers" in sys.modules
    for _ in range(7):
        dask.layers.ArrayBlockwiseDep(((1, 1),)).__repr__()


def test_a_module_that_is_imported_in_the_window(cluster: LocalProcesses, control: Control) -> None:
    profile = counted(cluster, control, import_and_call)
    assert profile.functions["dask.layers:ArrayBlockwiseDep.__init__"]["calls"] == 7
    body = profile.functions["dask.layers:<module>"]
    assert body["calls"] == 1
    assert body["bytecodes"] > 100


@pytest.mark.slow
def test_importing_moves_no_other_figure(
    cluster: LocalProcesses, control: Control, alone: CostProfile
) -> None:
    profile = counted(cluster, control, import_alone)
    assert of_the_state_machine(profile) == of_the_state_machine(alone)
    imported = {name for name in profile.functions if name.startswith("dask.layers:")}
    assert imported == {"dask.layers:<module>"}


def of_the_state_machine(profile: CostProfile) -> dict[tuple[str, str], float]:
    """Its figures, without those that depend on how long workers took."""
    return {
        (metric, name): amount
        for name, amounts in profile.functions.items()
        for metric, amount in amounts.items()
        if "SchedulerState." in name and (metric, name) not in BY_TIMES
    }


def do_nothing(dask_scheduler: Any) -> None:
    pass


def import_alone(dask_scheduler: Any) -> None:
    import sys

    sys.modules.pop("dask.layers", None)
    import dask.layers

    assert dask.layers


class Watching(SchedulerPlugin):
    """A plugin that does something at each transition."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **more: Any) -> None:
        self.note(finish)

    def note(self, finish: str) -> None:
        self.seen.append(finish)


def test_a_plugin_of_the_user(cluster: LocalProcesses, control: Control) -> None:
    with Client(cluster.address) as client:
        client.register_plugin(Watching())
    profile = counted(cluster, control, do_nothing)
    transitions = profile.functions["distributed.scheduler:SchedulerState._transition"]["calls"]
    called = profile.functions[f"{HERE}:Watching.transition"]["calls"]
    # One transition can lead to others, which are told together.
    assert 5 * TASKS <= called <= transitions
    assert profile.functions[f"{HERE}:Watching.note"]["calls"] == called


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


@pytest.mark.slow
def test_other_threads_are_not_counted(
    cluster: LocalProcesses, control: Control, alone: CostProfile
) -> None:
    beside = counted(cluster, control, work_in_thread)
    assert beside.functions["dask.utils:parse_bytes"]["calls"] == 3
    per_call = beside.functions["dask.utils:parse_bytes"]["bytecodes"] / 3
    assert 10 < per_call < 1000
    assert not any("work_in_thread.<locals>.work" in name for name in beside.functions)
    assert of_the_state_machine(beside) == of_the_state_machine(alone)


def copy_deeply(dask_scheduler: Any) -> None:
    import copy

    for _ in range(100):
        copy.deepcopy([[1, 2], [3, 4]])


@pytest.mark.slow
def test_a_deep_copy_is_work(cluster: LocalProcesses, control: Control) -> None:
    profile = counted(cluster, control, copy_deeply)
    assert profile.functions["copy:deepcopy"]["calls"] >= 300
    others = sum(
        costs["bytecodes"]
        for name, costs in profile.functions.items()
        if is_work(name) and name != "copy:deepcopy"
    )
    assert profile.whole["bytecodes"] == others + profile.functions["copy:deepcopy"]["bytecodes"]
