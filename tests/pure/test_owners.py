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


def test_every_side_and_owner_has_a_name_of_its_own_and_a_stack_below() -> None:
    assert {"idle", FOREIGN, UNDIVIDED, *(name for name, _ in SIDES)} == NOT_SCHEDULER
    assert set(REALISTIC) == {*OWNER_NAMES, FOREIGN}
    assert len(set(OWNER_NAMES)) == len(OWNER_NAMES)


def test_no_row_of_the_table_is_hidden_behind_an_earlier_one() -> None:
    for name, row in (*SIDES, *OWNERS):
        for pattern in row:
            function = pattern.replace("*", "x")
            assert name in (side_of(function), owner_of(function)), pattern


@pytest.mark.parametrize("side", ["profiler", "worker", "client", "import"])
def test_a_side_wins_whatever_it_called(side: str) -> None:
    for owner in ("serialisation", "transitions", "comm", "idle", "event-loop"):
        assert owner_of_stack((*REALISTIC[side], *REALISTIC[owner])) == side, owner


IN_A_WORKER = (
    *THREAD,
    "distributed.threadpoolexecutor:_worker",
    "distributed._concurrent_futures_thread:_WorkItem.run",
    "distributed.utils:run_in_executor_with_context.<locals>.<lambda>",
)
IN_A_TASK = ("dask._task_spec:Task.__call__", "mymodule:my_task")
SENDING = (*FINISHED, "distributed.batched:BatchedSend.send")
TEST = ("_pytest.python:pytest_pyfunc_call", "test_it:test_it")
COLLECTING = "libpython3.13.so.1.0:gc_collect_main"

STACKS: list[tuple[str, Stack]] = [
    *REALISTIC.items(),
    # A task that uses a client: the outermost side wins.
    ("worker", (*REALISTIC["worker"], "distributed.client:Client.submit")),
    *(
        ("worker", (*IN_A_WORKER, f"distributed.worker:{runner}", *IN_A_TASK))
        for runner in (
            "_run_task",
            "_run_task_simple",
            "apply_function",
            "apply_function_simple",
        )
    ),
    # The innermost function that has an owner decides; the others work for their callers.
    ("comm", SENDING),
    ("serialisation", (*SENDING, "distributed.protocol.core:dumps")),
    ("transitions", (*FINISHED, "collections:OrderedDict.update")),
    ("comm", (*REALISTIC["comm"], "json.encoder:encode")),
    ("idle", (*LOOP, "selectors:KqueueSelector.select")),
    ("idle", POOL),
    ("idle", (*THREAD, "distributed.threadpoolexecutor:_worker", "queue:Queue.get")),
    ("idle", (*THREAD, "queue:Queue.get", "threading:Condition.wait")),
    ("idle", ("threading:Event.wait", "threading:Condition.wait")),
    ("idle", ("threading:_shutdown", "threading:Thread._wait_for_tstate_lock")),
    ("idle", (*THREAD, "distributed.profile:_watch")),
    # Work below a pool's waiting function, and of a loop that has just waited.
    (
        "serialisation",
        (*POOL, "concurrent.futures.thread:_WorkItem.run", "distributed.protocol.core:loads"),
    ),
    ("event-loop", (*LOOP, "selectors:_SelectorMapping.get")),
    ("event-loop", (*LOOP, "selectors:_SelectorMapping.__len__")),
    (FOREIGN, ()),
    # The garbage collector is known by its functions of C.
    *(
        (owner, (*FINISHED, function, called))
        for function in (
            COLLECTING,
            "python3.12:gc_collect_main.constprop.0",
            "Python:gc_collect",
            "python3:_PyGC_x",
        )
        for owner, called in (
            ("gc", "libpython3.13.so.1.0:dict_traverse"),
            ("comm", "distributed.comm.tcp:TCP.__del__"),
        )
    ),
    # A test in the same process is a client, but for what its scheduler does.
    ("client", (*TEST, "dask.delayed:delayed", "dask._task_spec:Task.__init__")),
    ("local-scheduler", (TEST[0], *REALISTIC["local-scheduler"])),
    ("transitions", (*TEST, *FINISHED)),
]


@pytest.mark.parametrize(("owner", "stack"), STACKS)
def test_a_stack_belongs_to_its_owner(owner: str, stack: Stack) -> None:
    assert owner_of_stack(stack) == owner


FUNCTIONS = st.one_of(
    st.sampled_from([function for stack in REALISTIC.values() for function in stack]), st.text()
)


@given(st.lists(FUNCTIONS, max_size=8).map(tuple))
def test_any_stack_belongs_to_one_owner_of_the_table_or_is_foreign(stack: Stack) -> None:
    owner = owner_of_stack(stack)
    assert owner in {*OWNER_NAMES, FOREIGN}
    sides = [side for function in stack if (side := side_of(function))]
    assert owner == sides[0] if sides else owner not in {"profiler", "worker", "client"}


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


BODY = ("_pytest.python:Function.runtest", *TICK, "distributed.utils_test:gen_cluster.<locals>.f")

SHARED: dict[str, tuple[str, Stack]] = {
    "a graph that a coroutine test builds": (
        "client",
        ("_pytest.python:Function.runtest", *TICK, "test_it:test_it", "dask.delayed:delayed"),
    ),
    "the wrapper of gen_cluster": ("client", (*BODY, "distributed.scheduler:Scheduler.__init__")),
    "a graph that the scheduler takes in": ("graph-intake", REALISTIC["graph-intake"]),
    "a message that a transition sends": ("comm", SENDING),
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
