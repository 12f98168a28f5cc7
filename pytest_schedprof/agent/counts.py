"""Counts calls and bytecodes of chosen modules' functions, and messages and bytes, exactly."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cache
from hashlib import blake2b
from importlib import import_module
from types import CodeType
from typing import Any

from .choice import BODY, SCHEDULER, Answer, Choice, put_in_order
from .counted import Callers, lines_of
from .decisions import world_of
from .monitoring import Monitor
from .names import codes_of
from .opcodes import Opcodes
from .recordings import OwnProcess, Recording, as_json, begin, under_way
from .traffic import Traffic

SIZE = 4
"""Bytes of a digest."""

HAS_DOCSTRING = 0x4000000
"""Flag of code whose first constant is its docstring; older Pythons keep that place for it."""

IS_FLAGGED = sys.version_info >= (3, 14)


def digests_of(codes: Iterable[CodeType]) -> str:
    """Return the digests of all code of one name, in order: a property has up to three."""
    return " ".join(sorted({_digest(code) for code in codes}))


@cache
def _digest(code: CodeType) -> str:
    """Return one code's digest; rounds ask for the same code again."""
    return blake2b(repr(_content(code)).encode("utf-8", "replace"), digest_size=SIZE).hexdigest()


def _content(code: CodeType) -> tuple[object, ...]:
    """Return what the code does: neither lines nor names of files, variables and the function."""
    constants = code.co_consts[_begins_with_docstring(code) :]
    return (
        code.co_code,
        tuple(map(_constant, constants)),
        code.co_names,
        code.co_flags & ~HAS_DOCSTRING,
        code.co_exceptiontable,
    )


def _begins_with_docstring(code: CodeType) -> bool:
    """Whether the first constant is the docstring, or None in its place."""
    if IS_FLAGGED:
        return bool(code.co_flags & HAS_DOCSTRING)
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")


def _constant(value: object) -> object:
    if isinstance(value, CodeType):
        return _content(value)
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    # The order of a set is that of the hash seed; equal numbers of two types are not the same.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


CLIENT = "client_bytecodes"


NOT_COUNTED_OF_CLIENT = (
    # How often a test looks for the next result depends on how fast its process is.
    "distributed.client:as_completed.__next__",
    "distributed.client:as_completed.__anext__",
    # They look through all modules that this process has imported, for whichever test.
    "cloudpickle.cloudpickle:_find_imported_submodules",
    "cloudpickle.cloudpickle:_whichmodule",
)
"""Functions that differ between runs in virtual time too: neither they nor what they call count."""


HAS_MONITORING = hasattr(sys, "monitoring")


COUNTER: type[Monitor] | type[Opcodes] = Monitor if HAS_MONITORING else Opcodes


class ClientCounts:
    """Counts in the thread where its counter begins, and in those of the clients' event loops."""

    def __init__(self, modules: Sequence[str], without: Sequence[str]) -> None:
        self.choice = Choice(modules, without)
        left_out = list(codes_of(NOT_COUNTED_OF_CLIENT))
        self.counter = COUNTER(self.choice, left_out, bytecodes=True, others=run_on_loops)

    def end(self) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
        """Remove the hooks; return the bytecodes of each function that ran, and its digests."""
        self.counter.end()
        # A module is imported by whichever test of a session needs it first.
        ran = {
            name: codes
            for name, codes in sorted(self.choice.functions().items())
            if not name.endswith(f":{BODY}")
        }
        counts = {name: sum(map(self.counter.bytecodes_of, codes)) for name, codes in ran.items()}
        return (
            {name: {CLIENT: count} for name, count in counts.items() if count},
            {name: digests_of(ran[name]) for name, count in counts.items() if count},
        )


def clients() -> list[Any]:
    """Return the clients that are connected, but for the session's own."""
    import distributed.client  # no command that only reads results needs it

    every: list[Any] = list(distributed.client.Client._instances)
    running = (client for client in every if client.status == "running")
    return [client for client in running if not hasattr(client, "is_sessions")]


def can_wait_for_clients() -> bool:
    """Whether none of them is on the event loop of an `async def` test."""
    return not any(client.asynchronous for client in clients())


def run_on_loops(function: Callable[[], None]) -> None:
    """Run a function in the threads of the clients' event loops."""

    async def run() -> None:
        function()

    for client in clients():
        client.sync(run)


PERIODIC = (
    "distributed.active_memory_manager:ActiveMemoryManagerExtension.run_once",
    "distributed.scheduler:Scheduler._check_no_workers",
    "distributed.scheduler:Scheduler.check_idle",
    "distributed.scheduler:Scheduler.check_worker_ttl",
    "distributed.scheduler:Scheduler.identity",
    "distributed.semaphore:SemaphoreExtension._check_lease_timeout",
    "distributed.stealing:WorkStealing.balance",
)
"""Functions that the scheduler calls from time to time, or that clients ask for so. In real time
neither they nor what they call is counted: the counts would depend on how long the tasks took. In
virtual time that is known to the nanosecond, and they are counted."""

OF_EARLIER_TESTS = (
    "cloudpickle.cloudpickle:_find_imported_submodules",
    "distributed.client:Client.__del__",
    "distributed.comm.tcp:TCP._get_finalizer.<locals>.finalize",
    "distributed.utils:DequeHandler.clear",
    "distributed.utils:DequeHandler.clear_all_instances",
    "distributed.utils:DequeHandler.emit",
    "distributed.utils:_getmodulename_with_path",
)
"""What looks at all that is imported, is called for connections and clients that nobody closed, and
keeps the last lines of all logs."""

HEARTBEATS = (
    "distributed.scheduler:Scheduler.client_heartbeat",
    "distributed.scheduler:Scheduler.heartbeat_worker",
)
"""Handlers of heartbeats. In virtual time their own code is counted, but not what they call, which
in long tests would be most of all counts. In real time nothing of them is."""

NOT_COUNTED = (
    f"{Traffic.__module__}:Traffic.passed",
    "pytest_schedprof.clusters.in_process:Schedulers.living",
    "pytest_schedprof.virtual.choices:Choices.complete",
    "pytest_schedprof.virtual.choices:Choices.sent",
    "pytest_schedprof.virtual.choices:Choices.transition",
    "pytest_schedprof.virtual.loop:_Selector.select",
)
"""Functions of this package that count messages, record decisions, look for schedulers, or hand
over the turn. Neither they nor what they call is ever counted: how often the turn goes back and
forth depends on how fast the processes are."""

OWN = f"{__name__}:"
"""Begin of the names of functions of this module."""

MOST_WORKERS = 5000 if HAS_MONITORING else 1000
"""Workers up to which periodic functions are counted in virtual time: stealing compares all idle
workers for each task, so that a test with 10,000 took minutes. Before Python 3.12 each bytecode is
traced, which costs more."""


def proof() -> None:
    """Do nothing; called once when recording begins, to check that it is counted."""


class CountsRecording(Recording):
    """A counter at work."""

    kind = "counts"

    def __init__(
        self,
        client: str,
        choice: Choice,
        ordered: Sequence[str],
        bytecodes: bool,
        is_detailed: bool,
        holder: Any,
    ) -> None:
        super().__init__(client)
        self.choice, self.ordered = choice, ordered
        self.undo = ExitStack()
        self.before = 0
        """Transitions that the scheduler had made before."""
        self.bytecodes = bytecodes
        self.callers = Callers() if is_detailed else None
        left_out, alone = (list(codes_of(names)) for names in clockwork_of(holder))
        periodic = getattr(holder, "periodic_callbacks", {}).values()
        if HAS_MONITORING and not is_in_virtual_time(holder):
            periodic = ()  # another thread may count at the same time
        self.counter = COUNTER(
            choice,
            left_out,
            alone,
            bytecodes=bytecodes,
            others=getattr(holder, "run_on_loops", None),
            periodic=periodic,
            callers=self.callers,
        )
        self.traffic = Traffic(world_of(holder))
        self.holder = holder

    def begin(self) -> bool:
        """Start to count; False if another tool has the hook."""
        if not self.counter.begin():
            return False
        put_in_order(self.ordered, self.undo)
        self.traffic.begin()
        self.before = self.holder.transition_counter
        return True

    def unhook(self) -> None:
        """Stop to count; what has not begun is left as it is."""
        self.traffic.end()
        self.counter.end()
        self.undo.close()

    async def end(self, timeout: float) -> dict[str, Any]:
        transitions = self.holder.transition_counter - self.before
        self.unhook()
        functions = self.choice.functions()
        counted = self._counted(functions)
        record = {
            "schedprof_counts": 1,
            "python": sys.version.split()[0],
            **counted,
            "code": {name: digests_of(functions[name]) for name in counted["functions"]},
            **self._details(functions),
        }
        self.content = as_json(record)
        return {"transitions": transitions, "seen": self._seen(transitions)}

    def _seen(self, transitions: int) -> int:
        """Return how many of the transitions were counted: all, if that cannot be known."""
        method = getattr(import_module(SCHEDULER).SchedulerState, "_transition", None)
        if method is None or self.choice.without(SCHEDULER) or not self.choice.modules(SCHEDULER):
            return transitions
        # The clock gives up tasks that no worker may run, and what it calls is not counted.
        if any(getattr(one, "no_workers_timeout", None) for one in list(self.traffic.schedulers)):
            return transitions
        return self.counter.calls_of(inspect.unwrap(method).__code__)

    def _counted(self, functions: dict[str, list[CodeType]]) -> dict[str, Any]:
        """Return what was counted; it is all the client's if no scheduler ran in this process."""
        counts = self._counts(functions)
        if not getattr(self.holder, "is_client_alone", False):
            return {"functions": counts, "whole": dict(self.traffic.counts)}
        of_client = {
            name: {CLIENT: numbers["bytecodes"]}
            for name, numbers in counts.items()
            if numbers.get("bytecodes")
        }
        return {"functions": of_client, "whole": {}}

    def _details(self, functions: dict[str, list[CodeType]]) -> dict[str, Any]:
        """Return calls by caller and instructions by line, if they are wanted."""
        if self.callers is None:
            return {}
        lines = {
            name: lines_of(codes, [self.counter.executed(code) for code in codes])
            for name, codes in sorted(functions.items())
            if self.bytecodes
        }
        return {
            "callers": self.callers.by_name(functions),
            "lines": {name: numbers for name, numbers in lines.items() if numbers},
        }

    def _counts(self, functions: dict[str, list[CodeType]]) -> dict[str, dict[str, int]]:
        counts = {}
        for name, codes in sorted(functions.items()):
            if name.endswith(f":{BODY}") and isinstance(self.holder, OwnProcess):
                continue  # an earlier test of the process may have imported the module
            numbers = {"calls": sum(map(self.counter.calls_of, codes))}
            if self.bytecodes:
                numbers["bytecodes"] = sum(map(self.counter.bytecodes_of, codes))
            if any(numbers.values()) and not name.startswith(OWN):
                counts[name] = numbers
        return counts


def is_in_virtual_time(holder: Any) -> bool:
    """Whether each run of a test is the same, what the clock calls included."""
    return world_of(holder) is not None


def clockwork_of(holder: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return functions left out with all that they call, and those whose own code alone counts."""
    if getattr(holder, "is_in_turns", False):
        return (*OF_EARLIER_TESTS, *NOT_COUNTED), HEARTBEATS
    if not is_in_virtual_time(holder):
        return (*PERIODIC, *HEARTBEATS, *NOT_COUNTED), ()
    if len(holder.workers) <= MOST_WORKERS:
        return NOT_COUNTED, HEARTBEATS
    return (*PERIODIC, *NOT_COUNTED), HEARTBEATS


async def start(
    code: dict[str, list[str]],
    bytecodes: bool,
    is_detailed: bool,
    client: str,
    dask_scheduler: Any = None,
) -> dict[str, Any]:
    """Start to count; return a `token` or a `problem`.

    Args:
        code: expressions for names of `modules`, for those that are left out though these match
            (`noise` and `workers`), for those whose constants are put in order (`ordered`), and,
            for a process that the test shares, other modules (`modules_here`) and those whose
            functions make a user's code count that they call (`callers_here`), or, if workers and
            clients take turns with the scheduler and count too, `modules_in_turns` and
            `callers_in_turns`.
        bytecodes: whether to count them too.
        is_detailed: whether to count calls by caller, and bytecodes by line.
        client: name of the client that asks.
        dask_scheduler: what represents this process.
    """
    if "counts" in under_way(dask_scheduler):
        return {"problem": "busy"}
    without = [*code["noise"], *code["workers"]]
    if getattr(dask_scheduler, "is_in_turns", False):
        choice = Choice(code["modules_in_turns"], code["noise"], code["callers_in_turns"])
    elif hasattr(dask_scheduler, "run_on_loops"):  # the process is the test's, too
        choice = Choice(code["modules_here"], without, code["callers_here"])
    else:
        choice = Choice(code["modules"], without)
    choice.answers[__name__] = Answer.YES
    recording = CountsRecording(
        client, choice, code["ordered"], bytecodes, is_detailed, dask_scheduler
    )
    try:
        has_begun = recording.begin()
    except BaseException:  # a loop is blocked, and others count already
        recording.unhook()
        raise
    if not has_begun:
        holder = recording.counter.holder()
        return {"problem": "taken", "holder": holder, "is_newer": HAS_MONITORING}
    proof()
    if recording.counter.calls_of(proof.__code__) != 1:
        await recording.end(0)
        return {"problem": "failed"}
    is_timed = is_in_virtual_time(dask_scheduler)
    return {**begin(dask_scheduler, recording), "is_timed": is_timed}
