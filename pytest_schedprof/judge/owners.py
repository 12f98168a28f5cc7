"""Assign each sample to its owner, a part of dask, by one ordered table.

A sample whose stack contains a function of `SIDES` belongs to that side: the code ran for the
profiler, a worker, the client or an import, whatever it called. Any other sample belongs to the
owner of its innermost function that has one: a `send` called from a transition is `comm`.

If the test runs in the profiled process, so do workers and clients. There

- code that is called neither by an event loop nor by a local scheduler belongs to the client;
- so does a callback or coroutine of an event loop whose outermost function is not a library's:
  that is the body of an asynchronous test;
- code of a library that all of them use, as of connections, belongs to the scheduler only if one of
  the scheduler's functions called it. Otherwise its owner is `undivided`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

from pytest_schedprof.model.profile import (
    BODY,
    OTHERS,
    Function,
    Stack,
    compile_pattern,
    is_installed,
    is_of_library,
)
from pytest_schedprof.model.result import NOT_SCHEDULER as NOT_SCHEDULER

SIDES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "profiler",
        (
            "pytest_schedprof.agent*:*",
            "schedprof_agent_*:*",
            "dask_pyspy*:*",
            "viztracer*:*",
        ),
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
    # A module is imported once, in the first test that needs it: not a cost of that test.
    ("import", ("importlib._bootstrap*:*",)),
)

TEST = ("_pytest.python:*",)
"""Functions that run a test. Every stack has them if the scheduler runs in the test's process."""

SCHEDULED = ("asyncio.base_events:BaseEventLoop._run_once", "dask.local:get_async")
"""Functions that run a scheduler. A stack of a test without one of them belongs to the client."""

SCHEDULERS_OWN = (
    "distributed.scheduler:*",
    "distributed.stealing:*",
    "distributed.active_memory_manager:*",
    "distributed.spans:*",
    "distributed.diagnostics.*:*",
    "distributed.dashboard.*:*",
    "distributed.http.*:*",
    "distributed.shuffle._scheduler_plugin:*",
    "dask.local:*",
)
"""Functions that only a scheduler calls."""

LIBRARIES = (
    "asyncio.*:*",
    "tornado.*:*",
    "uvloop*:*",
    "distributed*:*",
    "dask*:*",
    "contextvars:*",
)
"""Functions that are not a test's own."""

LOOP = ("asyncio.*:*", "tornado.*:*", "uvloop*:*", "contextvars:*")
"""Functions of event loops, which call everybody's code."""

TESTING = ("distributed.utils_test:*",)
"""Functions of dask that belong to a test."""

COLLECTOR = (
    *(
        f"{binary}:{function}*"
        for binary in ("libpython*", "python*", "Python")
        for function in ("gc_collect", "deduce_unreachable", "PyGC_Collect", "_PyGC_", "_Py_RunGC")
    ),
    "~:<GC>",
)
"""What the garbage collector is in stacks: C functions, for profilers that see these, and the frame
that tachyon shows for it."""

IDLE = "idle"
"""Owner of samples in which a thread waits."""

COLLECTING = "gc"
"""Owner of the garbage collector."""

CALLBACKS = ("distributed.gc:*",)

COLLECTOR_UNSEEN = (
    "nothing that was recorded shows the garbage collector, which is C code: use a backend that "
    "measures cpu, or the option native with a Python that is not stripped of its symbols"
)

OWNERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        IDLE,
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
    # Handlers that last as long as a connection. The work of its messages belongs to other owners.
    (
        "connections",
        (
            "distributed.scheduler:Scheduler.add_worker*",
            "distributed.scheduler:Scheduler.handle_worker",
            "distributed.scheduler:Scheduler.add_client*",
        ),
    ),
    # After the more specific rows: the rest of the state machine is the work of a transition.
    ("transitions", ("distributed.scheduler:*", "distributed.collections:*")),
    ("diagnostics", ("distributed.diagnostics.*:*", "distributed.spans:*", "distributed.broker:*")),
    ("event-loop", ("asyncio.*:*", "tornado.*:*", "uvloop*:*", "distributed.core:*")),
    ("other", ("distributed*:*", "dask*:*")),
    ("c-code", ("c:*",)),
)

UNDIVIDED = "undivided"
"""Owner of samples that may be the scheduler's, a worker's or a client's, in a process of all."""

FOREIGN = "foreign"
"""Owner of samples without a function of the table, as of a thread that does not run dask."""

PLUMBING = NOT_SCHEDULER | {"event-loop", "connections", "other"}
"""Owners whose functions call all others: their shares are high and tell nothing."""

COUNTED = ("plugins", "libraries")
"""Owners of code that only `counts` sees apart: a user's on the scheduler, and all other code that
the table does not know. Samples of it belong to the functions that call it."""

OWNER_NAMES = tuple(name for name, _ in (*SIDES, *OWNERS))


def doubt_of_collector(
    subject: str, functions: Iterable[Function], by_callbacks: bool = False
) -> str:
    """Return why the owner `gc` cannot be judged, or an empty string.

    Python functions called by the collector take next to no time; its C functions must be seen.

    Args:
        functions: all functions that were seen.
        by_callbacks: whether the collector's time was attributed to its callbacks.
    """
    telling = (*COLLECTOR, *CALLBACKS) if by_callbacks else COLLECTOR
    if subject != "@gc" or any(_is_any(function, telling) for function in functions):
        return ""
    return COLLECTOR_UNSEEN


@cache
def side_of(function: Function) -> str | None:
    """Return the side that a function belongs to, None for the scheduler."""
    return _first_match(function, SIDES)


def _is_any(function: Function, patterns: tuple[str, ...]) -> bool:
    return any(compile_pattern(pattern).fullmatch(function) for pattern in patterns)


def _any_of(patterns: tuple[str, ...]) -> Callable[[Function], bool]:
    """Return what tells quickly, for all functions of many stacks, whether a pattern matches."""
    return cache(partial(_is_any, patterns=patterns))


_is_of_test, _is_scheduled = _any_of(TEST), _any_of(SCHEDULED)
_is_schedulers_own, _is_of_loop = _any_of(SCHEDULERS_OWN), _any_of(LOOP)


@cache
def _is_library(function: Function) -> bool:
    return _is_any(function, LIBRARIES) and not _is_any(function, TESTING)


@cache
def owner_of(function: Function) -> str:
    """Return the owner of a function, `foreign` if the table has none."""
    return _first_match(function, OWNERS) or FOREIGN


@cache
def is_used_by_all(function: Function) -> bool:
    """Whether workers and clients may call a function of dask or of an event loop, too."""
    return _is_library(function) and not _is_schedulers_own(function)


def owner_alone(function: Function) -> str:
    """Return the owner of a function whose callers are not known."""
    return side_of(function) or owner_of(function)


def others_of(owner: str) -> str:
    """Return the name of the line for functions of a module that are of this owner."""
    return f"{OTHERS[:-1]}-{owner}>"


def owner_of_others(function: Function) -> str | None:
    """Return the owner that a line of other functions names, empty if none; None of a function."""
    name = function.partition(":")[2]
    head = OTHERS[:-1]
    return name[len(head) :].strip("->") if name.startswith(head) and name.endswith(">") else None


@cache
def owner_of_counted(function: Function) -> str:
    """Return the owner of a function of which it is known that the scheduler ran it."""
    module, _, name = function.partition(":")
    if name == BODY:
        return "import"
    owner = owner_of_others(function) or owner_alone(function)
    if owner != FOREIGN:
        return owner
    return "libraries" if is_of_library(module) or is_installed(module) else "plugins"


def _first_match(function: Function, table: tuple[tuple[str, tuple[str, ...]], ...]) -> str | None:
    return next((owner for owner, patterns in table if _is_any(function, patterns)), None)


def without_who_was_interrupted(stack: Stack) -> Stack:
    """Return a stack of the collector without the functions that it interrupted.

    Which function is interrupted is chance, and a full collection takes a tenth of a second.
    """
    owners = [owner_of(function) for function in stack]
    return stack[owners.index(COLLECTING) :]


def owner_of_stack(stack: Stack, is_shared: bool = False) -> str:
    """Return the owner of a sample by the rule in the docstring of this module.

    Args:
        stack: the sample's functions.
        is_shared: whether workers and clients ran in the same process.
    """
    if side := next(filter(None, map(side_of, stack)), None):
        return side
    if any(map(_is_of_test, stack)) and not any(map(_is_scheduled, stack)):
        return "client"
    owner = _owner_of_innermost(stack)
    if not is_shared or owner in NOT_SCHEDULER:
        return owner
    if _is_of_body(stack):
        return "client"
    return owner if any(map(_is_schedulers_own, stack)) else UNDIVIDED


def undivided_subjects(stack: Stack) -> frozenset[str]:
    """Return functions and the `@owner` of a sample of which nobody knows whose it is.

    The sample is from a process that workers and clients share. Empty if its side is known.
    """
    if owner_of_stack(stack, is_shared=True) != UNDIVIDED:
        return frozenset()
    return frozenset({*stack, f"@{_owner_of_innermost(stack)}"})


def _is_of_body(stack: Stack) -> bool:
    """Whether an event loop called a function that is not a library's: the body of a test."""
    scheduled = [i for i, function in enumerate(stack) if _is_scheduled(function)]
    called = stack[scheduled[-1] + 1 :] if scheduled else ()
    outermost = next((function for function in called if not _is_of_loop(function)), None)
    return outermost is not None and not _is_library(outermost)


def _owner_of_innermost(stack: Stack) -> str:
    owners = map(owner_of, reversed(stack))
    return next((owner for owner in owners if owner != FOREIGN), FOREIGN)
