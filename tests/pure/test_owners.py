"""Tests of owners: the table of patterns, and the rule that finds the owner of a sample."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.owners import (
    FOREIGN,
    NOT_SCHEDULER,
    OWNER_NAMES,
    OWNERS,
    SIDES,
    UNDIVIDED,
    doubt_of_collector,
    owner_of,
    owner_of_stack,
    side_of,
    undivided_subjects,
)
from pytest_schedprof.model.profile import Stack

LOOP = (
    "distributed.cli.dask_scheduler:main",
    "asyncio.runners:Runner.run",
    "asyncio.base_events:BaseEventLoop.run_forever",
    "asyncio.base_events:BaseEventLoop._run_once",
)
TICK = (*LOOP, "asyncio.events:Handle._run")
PERIODIC = (*TICK, "tornado.ioloop:PeriodicCallback._run")
STREAM = (
    *TICK,
    "distributed.core:Server._handle_comm",
    "distributed.scheduler:Scheduler.add_worker",
    "distributed.scheduler:Scheduler.handle_worker",
    "distributed.core:Server.handle_stream",
)
FINISHED = (
    *STREAM,
    "distributed.scheduler:Scheduler.handle_task_finished",
    "distributed.scheduler:SchedulerState._transition",
)
THREAD = (
    "threading:Thread._bootstrap",
    "threading:Thread._bootstrap_inner",
    "threading:Thread.run",
)
POOL = (*THREAD, "concurrent.futures.thread:_worker")

REALISTIC: dict[str, Stack] = {
    "profiler": (*TICK, "distributed.worker:run", "pytest_schedprof.agent.pyspy:beacon"),
    "worker": (*TICK, "distributed.worker:Worker.execute", "distributed.worker:_deserialize"),
    "client": (*TICK, "distributed.client:Client._handle_report"),
    "import": (*TICK, "importlib._bootstrap:_find_and_load", "dask.array:<module>"),
    "local-scheduler": (
        "test_it:test_it",
        "dask.threaded:get",
        "dask.local:get_async",
        "dask.local:finish_task",
    ),
    "idle": (*LOOP, "selectors:EpollSelector.select"),
    "gc": (*FINISHED, "distributed.gc:GCDiagnosis._gc_callback"),
    "graph-intake": (*STREAM, "distributed.scheduler:Scheduler.update_graph", "dask.order:order"),
    "worker-choice": (
        *FINISHED,
        "distributed.scheduler:SchedulerState.decide_worker_non_rootish",
        "distributed.scheduler:decide_worker",
        "distributed.scheduler:SchedulerState.worker_objective",
    ),
    "stealing": (*PERIODIC, "distributed.stealing:WorkStealing.balance"),
    "memory-manager": (
        *PERIODIC,
        "distributed.active_memory_manager:ActiveMemoryManagerExtension.run_once",
    ),
    "shuffle": (
        *STREAM,
        "distributed.shuffle._scheduler_plugin:ShuffleSchedulerPlugin.get_or_create",
    ),
    "heartbeat": (
        *TICK,
        "distributed.core:Server._handle_comm",
        "distributed.scheduler:Scheduler.heartbeat_worker",
    ),
    "dashboard": (
        *TICK,
        "tornado.ioloop:IOLoop._run_callback",
        "bokeh.server.session:ServerSession.with_document_locked",
        "distributed.dashboard.components.scheduler:TaskStream.update",
    ),
    "serialisation": (
        *TICK,
        "distributed.comm.tcp:TCP.write",
        "distributed.comm.utils:to_frames",
        "distributed.protocol.core:dumps",
    ),
    "comm": (*TICK, "distributed.batched:BatchedSend._background_send", "distributed.comm.tcp:w"),
    "connections": STREAM[:-1],
    "transitions": FINISHED,
    "diagnostics": (
        *FINISHED,
        "distributed.diagnostics.task_stream:TaskStreamPlugin.transition",
    ),
    "event-loop": TICK,
    "c-code": (*FINISHED, "c:list_sort_impl"),
    "other": (*TICK, "distributed.utils:log_errors.<locals>.wrapper"),
    FOREIGN: (*THREAD, "http.server:HTTPServer.serve_forever"),
}


def test_every_side_is_no_part_of_the_scheduler() -> None:
    assert {"idle", FOREIGN, UNDIVIDED, *(name for name, _ in SIDES)} == NOT_SCHEDULER


def test_the_stacks_below_speak_of_every_owner_there_is() -> None:
    assert set(REALISTIC) == {*OWNER_NAMES, FOREIGN}


@pytest.mark.parametrize(("owner", "stack"), list(REALISTIC.items()), ids=list(REALISTIC))
def test_every_owner_is_reached_by_a_realistic_stack(owner: str, stack: Stack) -> None:
    assert owner_of_stack(stack) == owner


@pytest.mark.parametrize(
    ("owner", "pattern"), [(owner, pattern) for owner, row in OWNERS for pattern in row]
)
def test_no_row_of_the_table_is_hidden_behind_an_earlier_one(owner: str, pattern: str) -> None:
    assert owner_of(pattern.replace("*", "x")) == owner


@pytest.mark.parametrize(
    ("side", "pattern"), [(side, pattern) for side, row in SIDES for pattern in row]
)
def test_no_side_is_hidden_behind_an_earlier_one(side: str, pattern: str) -> None:
    assert side_of(pattern.replace("*", "x")) == side


def test_every_owner_has_one_name() -> None:
    assert len(set(OWNER_NAMES)) == len(OWNER_NAMES)


def test_only_idle_the_sides_and_foreign_threads_are_in_no_denominator() -> None:
    assert {"idle", "profiler", "worker", "client", "import", FOREIGN, UNDIVIDED} == NOT_SCHEDULER


@pytest.mark.parametrize("side", ["profiler", "worker", "client", "import"])
@pytest.mark.parametrize("owner", ["serialisation", "transitions", "comm", "idle", "event-loop"])
def test_a_side_wins_whatever_it_called(side: str, owner: str) -> None:
    assert owner_of_stack((*REALISTIC[side], *REALISTIC[owner])) == side


def test_the_outermost_side_wins_over_a_side_that_it_called() -> None:
    task_that_uses_a_client = (*REALISTIC["worker"], "distributed.client:Client.submit")
    assert owner_of_stack(task_that_uses_a_client) == "worker"


@pytest.mark.parametrize(
    "runner", ["_run_task", "_run_task_simple", "apply_function", "apply_function_simple"]
)
def test_a_task_that_runs_on_a_worker_in_the_process_is_the_worker_s(runner: str) -> None:
    stack = (
        *THREAD,
        "distributed.threadpoolexecutor:_worker",
        "distributed._concurrent_futures_thread:_WorkItem.run",
        "distributed.utils:run_in_executor_with_context.<locals>.<lambda>",
        f"distributed.worker:{runner}",
        "dask._task_spec:Task.__call__",
        "mymodule:my_task",
    )
    assert owner_of_stack(stack) == "worker"


def test_the_innermost_owned_function_decides() -> None:
    assert owner_of_stack(FINISHED) == "transitions"
    sending = (*FINISHED, "distributed.batched:BatchedSend.send")
    assert owner_of_stack(sending) == "comm"
    assert owner_of_stack((*sending, "distributed.protocol.core:dumps")) == "serialisation"


def test_a_function_that_nobody_owns_works_for_its_caller() -> None:
    assert owner_of("collections:OrderedDict.update") == FOREIGN
    assert owner_of_stack((*FINISHED, "collections:OrderedDict.update")) == "transitions"
    assert owner_of_stack((*REALISTIC["comm"], "json.encoder:encode")) == "comm"


@pytest.mark.parametrize(
    "waiting",
    [
        (*LOOP, "selectors:EpollSelector.select"),
        (*LOOP, "selectors:KqueueSelector.select"),
        POOL,
        (*THREAD, "distributed.threadpoolexecutor:_worker", "queue:Queue.get"),
        (*THREAD, "queue:Queue.get", "threading:Condition.wait"),
        ("threading:Event.wait", "threading:Condition.wait"),
        ("threading:_shutdown", "threading:Thread._wait_for_tstate_lock"),
        (*THREAD, "distributed.profile:_watch"),
    ],
)
def test_waiting_is_idle(waiting: Stack) -> None:
    assert owner_of_stack(waiting) == "idle"


def test_work_below_a_pool_s_waiting_function_is_not_idle() -> None:
    stack = (*POOL, "concurrent.futures.thread:_WorkItem.run", "distributed.protocol.core:loads")
    assert owner_of_stack(stack) == "serialisation"


def test_work_of_a_loop_that_has_just_waited_is_not_idle() -> None:
    assert owner_of_stack((*LOOP, "selectors:_SelectorMapping.get")) == "event-loop"
    assert owner_of_stack((*LOOP, "selectors:_SelectorMapping.__len__")) == "event-loop"


def test_a_stack_without_functions_is_nobody_s() -> None:
    assert owner_of_stack(()) == FOREIGN


NAMES = st.one_of(
    st.sampled_from([function for stack in REALISTIC.values() for function in stack]), st.text()
)


@given(st.lists(NAMES, max_size=8).map(tuple))
def test_any_stack_belongs_to_one_owner_of_the_table_or_is_foreign(stack: Stack) -> None:
    owner = owner_of_stack(stack)
    assert owner in {*OWNER_NAMES, FOREIGN}
    sides = [side for function in stack if (side := side_of(function))]
    assert owner == sides[0] if sides else owner not in {"profiler", "worker", "client"}


COLLECTING = "libpython3.13.so.1.0:gc_collect_main"


@pytest.mark.parametrize(
    "function",
    [COLLECTING, "python3.12:gc_collect_main.constprop.0", "Python:gc_collect", "python3:_PyGC_x"],
)
def test_collector_is_known_by_its_functions_of_c(function: str) -> None:
    assert owner_of_stack((*FINISHED, function, "libpython3.13.so.1.0:dict_traverse")) == "gc"
    assert owner_of_stack((*FINISHED, function, "distributed.comm.tcp:TCP.__del__")) == "comm"


def test_owner_gc_is_in_doubt_until_the_collector_was_seen() -> None:
    callback = "distributed.gc:GCDiagnosis._gc_callback"
    assert "use a backend that measures cpu, or the option native" in doubt_of_collector(
        "@gc", [callback]
    )
    assert doubt_of_collector("@gc", [callback, COLLECTING]) == ""
    assert doubt_of_collector("@gc", [callback], by_callbacks=True) == ""
    assert doubt_of_collector("@gc", [], by_callbacks=True)
    assert doubt_of_collector("@comm", [callback]) == ""
    assert doubt_of_collector("", []) == ""


def test_a_test_in_the_same_process_is_a_client_but_for_what_its_scheduler_does() -> None:
    test = ("_pytest.python:pytest_pyfunc_call", "test_it:test_it")
    assert (
        owner_of_stack((*test, "dask.delayed:delayed", "dask._task_spec:Task.__init__")) == "client"
    )
    local = (*test, "dask.threaded:get", "dask.local:get_async", "dask.local:finish_task")
    assert owner_of_stack(local) == "local-scheduler"
    assert owner_of_stack((*test, *FINISHED)) == "transitions"


BODY = ("_pytest.python:Function.runtest", *TICK, "distributed.utils_test:gen_cluster.<locals>.f")

SHARED: dict[str, tuple[str, Stack]] = {
    "a graph that a coroutine test builds": (
        "client",
        ("_pytest.python:Function.runtest", *TICK, "test_it:test_it", "dask.delayed:delayed"),
    ),
    "the wrapper of gen_cluster": ("client", (*BODY, "distributed.scheduler:Scheduler.__init__")),
    "a graph that the scheduler takes in": ("graph-intake", REALISTIC["graph-intake"]),
    "a message that a transition sends": (
        "comm",
        (*FINISHED, "distributed.batched:BatchedSend.send"),
    ),
    "a batch that anybody sends": (UNDIVIDED, REALISTIC["comm"]),
    "a message that anybody writes": (UNDIVIDED, REALISTIC["serialisation"]),
    "a message that a worker reads": (
        "worker",
        (*TICK, "distributed.worker:Worker.handle_scheduler", "distributed.comm.tcp:TCP.read"),
    ),
    "waiting": ("idle", REALISTIC["idle"]),
}


@pytest.mark.parametrize(("owner", "stack"), SHARED.values(), ids=list(SHARED))
def test_in_a_shared_process_only_what_is_surely_the_schedulers_counts(
    owner: str, stack: Stack
) -> None:
    assert owner_of_stack(stack, is_shared=True) == owner


def test_undivided_samples_name_their_functions_and_owner() -> None:
    assert undivided_subjects(REALISTIC["comm"]) == {*REALISTIC["comm"], "@comm"}
    assert undivided_subjects(REALISTIC["transitions"]) == frozenset()
