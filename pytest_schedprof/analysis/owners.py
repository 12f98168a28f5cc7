"""Which part of dask a sample belongs to: one ordered table, read by one rule.

A sample whose stack holds a function of `SIDES` belongs to that side: it ran for the
profiler, a worker or the client, or imported a module, whatever it called. Any other sample
belongs to the owner of its innermost function that has one: a `send` called from a
transition is `comm`. Of a test in the profiled process itself, what neither an event loop nor
a local scheduler calls is the client's: it builds graphs, as they do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.model.profile import Function, Stack

SIDES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "profiler",
        ("pytest_schedprof.agent*:*", "schedprof_agent_*:*", "dask_pyspy*:*", "viztracer*:*"),
    ),
    (
        "worker",
        (
            "distributed.worker:Worker.*",
            "distributed.worker:apply_function*",
            "distributed.worker:_run_*",
            "distributed.worker_state_machine:*",
            "distributed.worker_memory:*",
            "distributed.nanny:*",
            "dask.local:execute_task",
            "dask.local:batch_execute_tasks",
        ),
    ),
    ("client", ("distributed.client:Client.*", "distributed.client:Future.*")),
    # A module is imported once, in whichever test comes first: no cost of any one test.
    ("import", ("importlib._bootstrap*:*",)),
)

TEST = ("_pytest.python:*",)
"""What runs a test: with a scheduler in the test's own process it stands under all of it."""

SCHEDULED = ("asyncio.base_events:BaseEventLoop._run_once", "dask.local:get_async")
"""Above what runs a test, what may be a scheduler's. The rest is the test, which is a client."""

COLLECTOR = tuple(
    f"{binary}:{function}*"
    for binary in ("libpython*", "python*", "Python")
    for function in ("gc_collect", "deduce_unreachable", "PyGC_Collect", "_PyGC_", "_Py_RunGC")
)
"""Functions of C of the interpreter's collector, where a profiler sees such."""

COLLECTING = "gc"
"""Its owner."""

CALLBACKS = ("distributed.gc:*", "distributed.utils_perf:*")

COLLECTOR_UNSEEN = (
    "nothing that was recorded shows the garbage collector, which is C code: use cputime, or pyspy "
    "with its option native and a Python that is not stripped of its symbols"
)

OWNERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "idle",
        (
            "selectors:*Selector.select",
            "select:*",
            "threading:*.wait",
            "threading:*._wait_for_tstate_lock",
            "threading:Thread.join",
            "multiprocessing.popen_*:Popen.poll",
            "queue:*.get",
            "concurrent.futures.thread:_worker",
            "distributed.profile:*",
            "distributed.threadpoolexecutor:_worker",
            "pytest_schedprof.clusters.process:_watch_parent*",
        ),
    ),
    (COLLECTING, (*COLLECTOR, *CALLBACKS)),
    (
        "graph-intake",
        (
            "distributed.scheduler:Scheduler.update_graph*",
            "distributed.scheduler:Scheduler._create_taskstate_from_graph*",
            "distributed.scheduler:Scheduler._generate_taskstates*",
            "distributed.scheduler:Scheduler._apply_annotations*",
            "distributed.scheduler:Scheduler._set_priorities*",
            "distributed.scheduler:Scheduler._match_graph_with_tasks*",
            "distributed.scheduler:Scheduler._remove_done_tasks*",
            "distributed.scheduler:SchedulerState.new_task*",
            "distributed.scheduler:_materialize_graph*",
            "distributed.scheduler:_cull*",
            "dask.order:*",
            "dask.optimization:*",
            "dask.highlevelgraph:*",
            "dask.blockwise:*",
            "dask._task_spec:*",
            "dask._expr:*",
            "distributed.client:_*Expr.*",
            "dask.core:*",
            "distributed.spans:SpansSchedulerExtension.observe_tasks*",
        ),
    ),
    (
        "worker-choice",
        (
            "distributed.scheduler:decide_worker*",
            "distributed.scheduler:SchedulerState.decide_worker*",
            "distributed.scheduler:SchedulerState.worker_objective*",
            "distributed.scheduler:SchedulerState.valid_workers*",
            "distributed.scheduler:SchedulerState.get_comm_cost*",
            "distributed.scheduler:SchedulerState.is_rootish*",
            "distributed.scheduler:SchedulerState.is_unoccupied*",
            "distributed.scheduler:SchedulerState.check_idle_saturated*",
            "distributed.scheduler:_task_slots_available",
            "distributed.scheduler:_worker_full",
        ),
    ),
    ("stealing", ("distributed.stealing:*",)),
    ("local-scheduler", ("dask.local:*", "dask.threaded:*", "dask.multiprocessing:*")),
    ("memory-manager", ("distributed.active_memory_manager:*",)),
    ("shuffle", ("distributed.shuffle.*:*",)),
    (
        "heartbeat",
        (
            "distributed.scheduler:Scheduler.heartbeat_worker*",
            "distributed.scheduler:Scheduler.client_heartbeat*",
            "distributed.scheduler:Scheduler.check_worker_ttl*",
            "distributed.system_monitor:*",
            "psutil*:*",
        ),
    ),
    ("dashboard", ("distributed.dashboard.*:*", "distributed.http.*:*", "bokeh.*:*")),
    (
        "serialisation",
        (
            "distributed.protocol.*:*",
            "distributed.comm.utils:*",
            "msgpack*:*",
            "pickle:*",
            "cloudpickle.*:*",
        ),
    ),
    (
        "comm",
        (
            "distributed.comm.*:*",
            "distributed.batched:*",
            "tornado.iostream:*",
            "tornado.tcpserver:*",
            "socket:*",
            "ssl:*",
        ),
    ),
    # Handlers that last as long as a connection; what comes over it is others' work.
    (
        "connections",
        (
            "distributed.scheduler:Scheduler.add_worker*",
            "distributed.scheduler:Scheduler.handle_worker",
            "distributed.scheduler:Scheduler.add_client*",
        ),
    ),
    # After the finer rows: whatever else the state machine does is the work of a transition.
    ("transitions", ("distributed.scheduler:*", "distributed.collections:*")),
    ("diagnostics", ("distributed.diagnostics.*:*", "distributed.spans:*", "distributed.broker:*")),
    (
        "event-loop",
        ("asyncio.*:*", "tornado.*:*", "uvloop*:*", "distributed.core:*"),
    ),
    ("other", ("distributed*:*", "dask*:*")),
)

FOREIGN = "foreign"
"""Samples without any function of the table: a thread that has nothing to do with dask."""

NOT_SCHEDULER = frozenset({"idle", FOREIGN, *(name for name, _ in SIDES)})
"""Owners whose samples are in no denominator."""

PLUMBING = NOT_SCHEDULER | {"event-loop", "connections", "other"}
"""Owners whose functions surround all others: they hold high shares and say nothing."""

OWNER_NAMES = tuple(name for name, _ in (*SIDES, *OWNERS))


def doubt_of_collector(
    subject: str, functions: Iterable[Function], by_callbacks: bool = False
) -> str:
    """Why nothing can be said of the owner gc, whose callbacks alone take next to no time.

    Args:
        subject: what a limit is on.
        functions: all that were seen.
        by_callbacks: whether the collector's time was counted for its callbacks.
    """
    telling = (*COLLECTOR, *CALLBACKS) if by_callbacks else COLLECTOR
    if subject != "@gc" or any(_first_match(each, (("gc", telling),)) for each in functions):
        return ""
    return COLLECTOR_UNSEEN


@cache
def side_of(function: Function) -> str | None:
    """The side that a function speaks for, None for the scheduler's own."""
    return _first_match(function, SIDES)


@cache
def _is_test(function: Function) -> bool:
    return _first_match(function, (("test", TEST),)) is not None


@cache
def _may_be_scheduled(function: Function) -> bool:
    return _first_match(function, (("scheduled", SCHEDULED),)) is not None


@cache
def owner_of(function: Function) -> str:
    """The owner of one function, `foreign` if it works for whoever calls it."""
    return _first_match(function, OWNERS) or FOREIGN


def owner_alone(function: Function) -> str:
    """Whom a function's cost is charged to where nothing is known of its callers."""
    return side_of(function) or owner_of(function)


def _first_match(function: Function, table: tuple[tuple[str, tuple[str, ...]], ...]) -> str | None:
    for owner, patterns in table:
        if any(compile_pattern(pattern).fullmatch(function) for pattern in patterns):
            return owner
    return None


def without_who_was_interrupted(stack: Stack) -> Stack:
    """Of the collector's stack what it did itself: in whose midst it began is chance.

    A full collection takes a tenth of a second, and one of many functions gets all of it.
    """
    began = (i for i, each in enumerate(stack) if owner_of(each) == COLLECTING)
    return stack[next(began) :]


def owner_of_stack(stack: Stack) -> str:
    """The owner of a sample, by the rule at the top of this file."""
    for function in stack:
        if side := side_of(function):
            return side
    if any(map(_is_test, stack)) and not any(map(_may_be_scheduled, stack)):
        return "client"
    for function in reversed(stack):
        if (owner := owner_of(function)) != FOREIGN:
            return owner
    return FOREIGN
