"""Schedulers in the test's own process: `gen_cluster`, `LocalCluster`, and dask's local schedulers.

They start and close within the test, so none can be asked for anything in advance. The whole
process is observed, samples are attributed to owners, and tasks are counted over all schedulers
that existed during the test. No connection is opened and no thread started, because tests of dask
itself check for leaked ones.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from dask.callbacks import Callback
from distributed import Client, Scheduler, Worker
from distributed.core import Status

from pytest_schedprof.agent import facts, names
from pytest_schedprof.agent.patches import replace
from pytest_schedprof.agent.recordings import OwnProcess
from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.control.control import Line
from pytest_schedprof.control.reachability import complete
from pytest_schedprof.errors import ClusterError, NoSchedulerError, SchedprofError
from pytest_schedprof.model.result import IN_PROCESS, OWN_VIRTUAL, VALIDATED

LOOP_S = 30.0
"""How long to wait for an event loop in another thread."""

ENDINGS = ("memory", "erred")
TAKE_THE_FIXTURE = "give it the fixture schedprof_scheduler, as an argument"

GONE = (Status.closing, Status.closed, Status.failed)


class Schedulers(OwnProcess):
    """Represents all schedulers of this process; counts the work of each until it closes."""

    def __init__(self) -> None:
        self.lived = False
        """Whether there was any scheduler."""
        self.has_client = False
        """Whether the test had a client, of whichever scheduler."""
        self.is_in_turns = False
        """Whether all threads run in turns and by a virtual clock, so that each run is the same."""
        self.threads: set[int] = set()
        """Identifiers of the threads in which their event loops ran."""
        self.validated = False
        """Whether any of them checked its own state at each transition."""
        self._left: Counter[str] = Counter()
        self._begun_at: WeakKeyDictionary[Scheduler, int] = WeakKeyDictionary()
        """Transitions that each scheduler had made before the test."""
        self._counted: WeakSet[Scheduler] = WeakSet()
        self._local = Callback(start=self._begin_locally, posttask=self._end_locally)
        self._undo = ExitStack()

    def watch(self) -> None:
        """Patch the methods that reset counters, and the one that starts a client."""
        for scheduler in list(Scheduler._instances):
            self._begun_at[scheduler] = scheduler.transition_counter
        clients = [client for client in list(Client._instances) if not isinstance(client, Line)]
        self.has_client = any(client.status == "running" for client in clients)
        before_clear = Scheduler._clear_task_state

        @functools.wraps(before_clear)
        def clear(scheduler: Scheduler) -> Any:
            if scheduler not in self._counted:  # it resets tasks, not transitions
                self._left.update(finished(scheduler))
            return before_clear(scheduler)

        replace(Scheduler, before_clear.__name__, clear, self._undo)
        _patch(Scheduler, "close", self._undo, before=self._count_out)
        _patch(Client, "_start", self._undo, before=self._note_client)
        self._local.register()
        self._undo.callback(self._local.unregister)

    def _note_client(self, client: Client) -> None:
        self.has_client |= not isinstance(client, Line)

    def unwatch(self) -> None:
        self.living()
        self._undo.close()

    def _begin_locally(self, graph: Any) -> None:
        """Note that one of dask's local schedulers started."""
        self.lived = True

    def _end_locally(self, *task: Any) -> None:
        self._left["memory"] += 1

    def _count_out(self, scheduler: Scheduler) -> None:
        self._note(scheduler)
        if scheduler not in self._counted:
            self._counted.add(scheduler)
            self._left.update(finished(scheduler), transitions=scheduler.transition_counter)

    def living(self) -> list[Scheduler]:
        living = [
            scheduler
            # `gen_cluster` makes distributed forget those that ran before it.
            for scheduler in {*Scheduler._instances, *self._begun_at}
            # Others of earlier tests may be in memory.
            if scheduler not in self._counted and scheduler.status not in GONE
        ]
        for scheduler in living:
            self._note(scheduler)
        return living

    def _note(self, scheduler: Scheduler) -> None:
        self.lived = True
        self.validated |= bool(scheduler.validate)
        has_worked = scheduler.transition_counter > self._begun_at.get(scheduler, 0)
        if has_worked and scheduler.thread_id:
            self.threads.add(scheduler.thread_id)

    def run_on_loops(self, function: Callable[[], None]) -> None:
        """Run a function in the threads of the event loops of all schedulers but in this thread.

        Raises:
            ClusterError: one of them is blocked: what it does would not be seen.
        """
        mine = (None, threading.get_ident())
        loops = {scheduler.loop for scheduler in self.living() if scheduler.thread_id not in mine}
        runs = [_run_on(loop, function) for loop in loops]
        wait(runs, LOOP_S)
        if any([run.cancel() for run in runs]):  # of those that are left, none begins later
            raise ClusterError(
                f"schedprof: an event loop in the test's own process was blocked for {LOOP_S:g} s"
            )

    @property
    def is_any_alive(self) -> bool:
        """Whether there is a scheduler that may still make transitions."""
        return bool(self.living())

    @property
    def is_client_alone(self) -> bool:
        """Whether no scheduler has run in this process so far: what it does is the client's."""
        return not (self.is_any_alive or self.lived)

    @property
    def transition_counter(self) -> int:
        """Transitions of all schedulers, in the form of a scheduler's attribute."""
        living = sum(scheduler.transition_counter for scheduler in self.living())
        return self._left["transitions"] + living

    @property
    def task_prefixes(self) -> dict[str, Any]:
        """Finished tasks of all schedulers, in the form of a scheduler's attribute."""
        counts = Counter({ending: self._left[ending] for ending in ENDINGS})
        for scheduler in self.living():
            counts.update(finished(scheduler))
        return {"all": SimpleNamespace(state_counts=counts)}


def _run_on(loop: Any, function: Callable[[], None]) -> Future[None]:
    done: Future[None] = Future()

    def run() -> None:
        if done.set_running_or_notify_cancel():
            try:
                function()
            finally:
                done.set_result(None)

    loop.add_callback(run)
    return done


def finished(scheduler: Any) -> Counter[str]:
    """Count a scheduler's finished tasks by their final state."""
    counts: Counter[str] = Counter()
    for prefix in scheduler.task_prefixes.values():
        counts.update({ending: prefix.state_counts[ending] for ending in ENDINGS})
    return counts


PLACES: dict[tuple[str, str, int], str] = {}
"""Names of functions by their place: each is looked up once in this process."""


class InProcess:
    """Stands in for the scheduler under test, its cluster and the control line."""

    label = "the test's own process"
    address = "in-process"
    client_id = ""

    def __init__(self, needs_scheduler: str | None = "", *, may_be_virtual: bool = False) -> None:
        """Watch the schedulers of this process.

        Args:
            may_be_virtual: whether the body is to run in virtual time. It does not if a fixture
                has made its cluster already.
            needs_scheduler: what of the test must have a scheduler, empty if that is the test as a
                whole; None if it need not have one.
        """
        self._needs_scheduler = needs_scheduler
        self.schedulers = Schedulers()
        self.schedulers.watch()
        self.window: Any = None
        is_virtual = may_be_virtual and not self.schedulers.has_client
        self.schedulers.is_in_turns = is_virtual
        self.cluster = AttachedCluster(self.address)
        self.cluster.kind = OWN_VIRTUAL if is_virtual else IN_PROCESS
        self.control: Any = self
        self.description: dict[str, Any] = {
            "pid": os.getpid(),
            "workers": [],
            "threads": 0,
            **facts.environment(),
        }

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function in this process as dask does."""
        asks = "dask_scheduler" in inspect.signature(function).parameters
        answer = function(*args, **({"dask_scheduler": self.schedulers} if asks else {}))
        return complete(answer) if inspect.iscoroutine(answer) else answer

    def name_places(self, places: list[tuple[str, str, int]]) -> list[str]:
        """Return `module:qualname` for each place in the code."""
        if unknown := [place for place in places if place not in PLACES]:
            PLACES.update(zip(unknown, names.name_places(unknown), strict=True))
        return [PLACES[place] for place in places]

    def leave(self, one_thread: Sequence[str]) -> list[SchedprofError]:
        """Return an error if no scheduler ran, or none that these backends could observe."""
        self.schedulers.unwatch()
        if self.schedulers.validated:  # an argument of the scheduler wins over the configuration
            self.description["configuration"]["validate"] = VALIDATED
        if not self.schedulers.lived and self._needs_scheduler is None:
            return []
        if not self.schedulers.lived:
            return [NoSchedulerError(f"schedprof: the test is marked, but {self._where_it_is()}")]
        if one_thread and self.schedulers.threads - {threading.main_thread().ident}:
            return [
                ClusterError(
                    f"schedprof: the test is marked, but {' and '.join(one_thread)} cannot see its "
                    "scheduler, whose event loop was not in the main thread: use a backend that "
                    f"observes all threads, or {TAKE_THE_FIXTURE}"
                )
            ]
        return []

    def _where_it_is(self) -> str:
        """Say why no scheduler was seen, and what to do."""
        if self.schedulers.has_client:
            return (
                "its client's scheduler is in another process: return that client or its cluster "
                f"from a fixture schedprof_cluster, and {TAKE_THE_FIXTURE}"
            )
        need = f", and {self._needs_scheduler} needs one" if self._needs_scheduler else ""
        return f"no scheduler ran in its own process{need}; {TAKE_THE_FIXTURE}"


class Observer:
    """Is called in the thread of the event loop of what it observes."""

    def begin(self, scheduler: Scheduler) -> None:
        """Begin with a scheduler that runs; no worker has joined it, unless it ran before."""

    def end(self, scheduler: Scheduler) -> None:
        """End with a scheduler that is about to close, or goes on after the run of the body."""

    def leave(self, worker: Worker) -> None:
        """Read a worker that is about to close, or goes on after the run of the body."""


class _Observation:
    """One observer during one run of the body."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.errors: list[Exception] = []
        self._begun: list[Scheduler] = []
        self._left: list[Worker] = []

    def begin(self, scheduler: Scheduler) -> None:
        if scheduler not in self._begun:
            self._begun.append(scheduler)
            self._keeping_errors(self.observer.begin, scheduler)

    def end(self, scheduler: Scheduler) -> None:
        if scheduler in self._begun:
            self._begun.remove(scheduler)
            self._keeping_errors(self.observer.end, scheduler)

    def leave(self, worker: Worker) -> None:
        if worker not in self._left:
            self._left.append(worker)
            self._keeping_errors(self.observer.leave, worker)

    def _keeping_errors(self, call: Callable[[Any], None], scheduler: Any) -> None:
        """Keep errors: the scheduler of a test must close as it would without an observer."""
        try:
            call(scheduler)
        except Exception as error:
            self.errors.append(error)

    def end_living(self) -> None:
        for worker in _running(Worker):
            _on_loop(worker, functools.partial(self.leave, worker))
        for scheduler in list(self._begun):
            _on_loop(scheduler, functools.partial(self.end, scheduler))


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Observe every scheduler and worker of this process; raise the observer's error at the end."""
    seen = _Observation(observer)
    for scheduler in _running(Scheduler):
        _on_loop(scheduler, functools.partial(seen.begin, scheduler))
    with ExitStack() as undo:
        _patch(Scheduler, "start_unsafe", undo, after=seen.begin)
        _patch(Scheduler, "close", undo, before=seen.end)
        _patch(Worker, "close", undo, before=seen.leave)
        yield
    seen.end_living()
    if seen.errors:
        raise seen.errors[0]


def _patch(
    owner: type,
    name: str,
    undo: ExitStack,
    before: Callable[[Any], None] = lambda scheduler: None,
    after: Callable[[Any], None] = lambda scheduler: None,
) -> None:
    method = getattr(owner, name)
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True

    undo.callback(end)

    @functools.wraps(method)
    async def patched(scheduler: Any, *args: Any, **keywords: Any) -> Any:
        if is_over:  # a test's monkeypatch has put this back later, for good
            return await method(scheduler, *args, **keywords)
        before(scheduler)
        result = await method(scheduler, *args, **keywords)
        after(scheduler)
        return result

    replace(owner, name, patched, undo)


def _running(kind: Any) -> list[Any]:
    return [node for node in list(kind._instances) if node.status == Status.running]


def _on_loop(scheduler: Any, call: Callable[[], None]) -> None:
    """Call in the thread of the event loop: at once if that is this one."""
    if scheduler.thread_id == threading.get_ident():
        call()
        return
    wait([_run_on(scheduler.loop, call)], LOOP_S)
