"""The scheduler under test, as a test sees it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import islice
from typing import Any, ClassVar

from distributed import Client
from msgspec import Struct

from pytest_schedprof.agent import decisions, facts
from pytest_schedprof.agent.names import import_early
from pytest_schedprof.clusters.contract import Cluster
from pytest_schedprof.control.control import Control, any_versions, close_client, keep_time, muted
from pytest_schedprof.errors import ClusterError, SchedprofError, SchedulerLostError

CLEANING_S = 5.0
CLOSING_S = 20.0
DYING_S = 2.0
"""How long a scheduler that hung up may take to be seen dead."""

IN_BODYS_THREAD: ContextVar[bool] = ContextVar("schedprof_in_bodys_thread", default=True)
"""Whether a window begins in the thread that runs the body."""


class Measure:
    """A narrowed window, for `with` and for `async with`."""

    def __init__(self, window: Callable[[], AbstractContextManager[None]], is_here: bool = False):
        self._window = window
        self._is_here = is_here
        """Whether the scheduler is in this process, perhaps in this very thread."""
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        window = self._window()
        window.__enter__()
        self._entered.append(window)

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)

    # In another thread, so that the test's event loop, and a client on it, keep running.

    async def __aenter__(self) -> None:
        if self._is_here:  # its backends observe this thread
            self.__enter__()
            return
        token = IN_BODYS_THREAD.set(False)
        try:
            await asyncio.to_thread(self.__enter__)
        finally:
            IN_BODYS_THREAD.reset(token)

    async def __aexit__(self, *error: Any) -> None:
        if self._is_here:
            self.__exit__(*error)
            return
        await asyncio.to_thread(self.__exit__, *error)


class CurrentWindow:
    """The window of the test that is being recorded in this process."""

    measure: ClassVar[Callable[[], Measure]] = lambda: Measure(nullcontext)

    @classmethod
    @contextmanager
    def of(
        cls, window: Callable[[], AbstractContextManager[None]], is_here: bool
    ) -> Iterator[None]:
        """Make it the current one during a run of the body."""
        before, cls.measure = cls.measure, lambda: Measure(window, is_here)
        try:
            yield
        finally:
            cls.measure = before


def measure() -> Measure:
    """Profile only the code inside: `with measure():`, or `async with measure():`.

    It does the same as `schedprof_scheduler.measure()`, and also works in tests whose scheduler is
    in their own process, as those with `gen_cluster`. It has no effect in a test that is not
    profiled, or inside another `measure`.
    """
    return CurrentWindow.measure()


class SchedulerUnderTest:
    """The value of the fixture `schedprof_scheduler`."""

    def __init__(self, client: Client, cluster: Cluster, control: Control) -> None:
        self.client = client
        """The test's own client, which is the default client while the test runs."""
        self.cluster = cluster
        self.control = control
        self.address = cluster.address
        """Where the scheduler listens."""
        description = control.call(facts.describe)
        self.pid: int = description["pid"]
        """Process ID of the scheduler on its machine."""
        self.description: dict[str, Any] = description
        self.window: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def workers(self) -> tuple[str, ...]:
        """Addresses of the workers that the scheduler knows at the moment."""
        workers: tuple[str, ...] = self.control.call(facts.workers)
        return workers

    def leave(self, one_thread: Sequence[str]) -> list[SchedprofError]:
        """Return what was wrong with the scheduler, now that the test's body is over.

        Args:
            one_thread: names of the backends that observe one thread only.
        """
        return []

    def measure(self) -> Measure:
        """Profile only the code inside: `with scheduler.measure():`, or `async with`.

        It has no effect if the test is not profiled, or inside another `measure`.
        """
        return Measure(self.window)

    def plan(
        self,
        seconds: float,
        fault: str,
        worker: int | str | Iterable[int | str],
        *,
        lasting: float | None = None,
    ) -> None:
        """Let something happen to workers of a virtual cluster, so many virtual seconds from now.

        Args:
            fault: `kill`, `pause`, `resume`, `slow`, `partition`, `silence` or `arrive`.
            worker: its name: 0, 1, 2, ...; or the names of several.
            lasting: seconds after which a worker is paused, slow, cut off or silent no longer.

        Raises:
            ClusterError: if that is not possible.
        """
        _check_time("the time", seconds)
        if lasting not in (None, math.inf):
            _check_time("lasting", lasting)
        names = _names_of(worker)
        if obstacle := self.control.call(decisions.plan, seconds, fault, names, lasting):
            raise ClusterError(f"schedprof: {obstacle}")

    def import_early(self, module: str) -> None:
        """Let the scheduler import a module now if it can, and not with a function of it."""
        self.control.call(import_early, module)

    @asynccontextmanager
    async def async_client(self) -> AsyncIterator[Client]:
        """Yield an asynchronous client, for `async def` tests."""
        client = Client(self.address, security=self.cluster.security, asynchronous=True)
        _note_workload(client, self.cluster)
        with any_versions():
            await client
        async with client:
            yield client


def _note_workload(client: Client, cluster: Cluster) -> None:
    """Tell `replay`, which gets a client, the workload of the client's cluster."""
    vars(client)["schedprof_workload"] = cluster.options.get("workload")


def _check_time(name: str, seconds: Any) -> None:
    """Refuse what is no time from now."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < math.inf:
        raise ClusterError(
            f"schedprof: plan: {name} must be a number of seconds, 0 or more, got {seconds!r}"
        )


MOST_PLANNED = 100_000
"""Workers to which something may happen at one time; more would fill the memory first."""


def _names_of(worker: Any) -> list[str]:
    """Return the names of one worker or of several."""
    names = [worker] if isinstance(worker, int | str) else worker
    if isinstance(names, Iterable):
        names = list(islice(names, MOST_PLANNED + 1))
        if len(names) > MOST_PLANNED:
            raise ClusterError(f"schedprof: plan: at most {MOST_PLANNED} workers at one time")
        if all(isinstance(name, int | str) for name in names):
            return [str(name) for name in names]
    raise ClusterError(
        f"schedprof: plan: worker must be a name such as 7, or several of them, got {worker!r}"
    )


@contextmanager
def open_scheduler(cluster: Cluster, control: Control) -> Iterator[SchedulerUnderTest]:
    """Connect a new client to a cluster's scheduler, for one test."""
    cluster.begin_test()
    try:
        with any_versions():
            client = Client(cluster.address, security=cluster.security)
        keep_time(client)
        _note_workload(client, cluster)
    except (OSError, ValueError) as error:
        trouble = cluster.death(DYING_S) or f"no scheduler answers at {cluster.address!r}: {error}"
        raise SchedulerLostError(f"schedprof: {trouble}") from error
    try:
        yield SchedulerUnderTest(client, cluster, control)
    finally:
        with muted("distributed.client"):
            close_client(client, timeout_s=CLOSING_S)


class Surroundings(Struct, frozen=True):
    """What was on the scheduler before a test and must not be touched by it."""

    tasks: frozenset[Any] = frozenset()
    datasets: frozenset[Any] = frozenset()
    workers: int | None = None
    """Number of workers, None if others decide about it."""


def look_around(cluster: Cluster, control: Control) -> Surroundings:
    """Return what a test must not touch: on our own cluster only the number of workers."""
    seen = control.call(facts.surroundings)
    if cluster.is_ours:
        return Surroundings(workers=seen["workers"])
    return Surroundings(seen["tasks"], seen["datasets"])


NOTHING = Surroundings()


def clean(control: Control, before: Surroundings = NOTHING) -> str | None:
    """Remove what a test left, and return what is still there after a deadline."""
    control.unpublish_all_but(before.datasets)
    if tasks := control.call(facts.wait_until_idle, CLEANING_S, before.tasks):
        return f"the scheduler still knows {tasks} tasks"
    others = control.call(facts.processing) if before.tasks else frozenset()
    waited = control.call_workers(facts.wait_until_worker_idle, CLEANING_S, others)
    if running := sum(waited.values()):
        return f"workers still run {running} tasks"
    workers = control.call(facts.surroundings)["workers"]
    if before.workers not in (workers, None):
        return f"it has {workers} workers instead of {before.workers}"
    return None
