"""The scheduler under test, as a test sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from distributed import Client

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.clusters.contract import Cluster
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.quiet import any_versions, muted
from pytest_schedprof.errors import SchedprofError, SchedulerLostError

CLEANING_S = 5.0

IN_BODYS_THREAD: ContextVar[bool] = ContextVar("schedprof_in_bodys_thread", default=True)
"""Whether a window begins in the thread whose CPU time is the body's."""


class Measure:
    """A narrowed window, for `with` and for `async with`."""

    def __init__(self, window: Callable[[], AbstractContextManager[None]]) -> None:
        self._window = window
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        window = self._window()
        window.__enter__()
        self._entered.append(window)

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)

    # In a thread, so that the test's own event loop, and a client on it, stay alive.

    async def __aenter__(self) -> None:
        token = IN_BODYS_THREAD.set(False)
        try:
            await asyncio.to_thread(self.__enter__)
        finally:
            IN_BODYS_THREAD.reset(token)

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self.__exit__, *error)


class SchedulerUnderTest:
    """What the fixture `schedprof_scheduler` gives to a test."""

    def __init__(self, client: Client, cluster: Cluster, control: Control) -> None:
        self.client = client
        """A client of the test's own, the default client while the test runs."""
        self.cluster = cluster
        self.control = control
        self.address = cluster.address
        """Where the scheduler listens."""
        description = control.call(facts.describe)
        self.pid: int = description["pid"]
        """Process ID of the scheduler, on its own machine."""
        self.description: dict[str, Any] = description
        self.window: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def workers(self) -> tuple[str, ...]:
        """Addresses of the workers that the scheduler knows now."""
        return tuple(self.control.call(facts.worker_names))

    def leave(self, backends: Sequence[Backend]) -> list[SchedprofError]:
        """What was wrong with it, now that the test's body is over."""
        return []

    def measure(self) -> Measure:
        """Profile only what happens inside: `with scheduler.measure():`, or `async with`.

        Without profiling, and inside another `measure`, it changes nothing.
        """
        return Measure(self.window)

    @asynccontextmanager
    async def async_client(self) -> AsyncIterator[Client]:
        """An asynchronous client for `async def` tests."""
        client = Client(self.address, security=self.cluster.security, asynchronous=True)
        with any_versions():
            await client
        async with client:
            yield client


@contextmanager
def open_scheduler(cluster: Cluster, control: Control) -> Iterator[SchedulerUnderTest]:
    """A cluster's scheduler with a fresh client, for one test."""
    try:
        with any_versions():
            client = Client(cluster.address, security=cluster.security)
    except (OSError, ValueError) as error:
        raise SchedulerLostError(
            f"schedprof: no scheduler answers at {cluster.address!r}: {error}"
        ) from error
    try:
        yield SchedulerUnderTest(client, cluster, control)
    finally:
        with muted("distributed.client"):
            client.close()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was on the scheduler before a test and must be there after it."""

    tasks: frozenset[Any] = frozenset()
    clients: frozenset[str] = frozenset()
    """Other people's: also what they do meanwhile is theirs."""
    datasets: frozenset[Any] = frozenset()
    workers: int | None = None
    """None where they come and go as somebody else likes."""

    @property
    def is_shared(self) -> bool:
        """Whether tasks of others may be running."""
        return bool(self.tasks or self.clients)


def look_around(cluster: Cluster, control: Control) -> Surroundings:
    """What a test must not touch: on a cluster of our own nothing but the number of workers."""
    found = control.call(facts.surroundings)
    if cluster.is_ours:
        return Surroundings(workers=found["workers"])
    others = found["clients"] - {control.client_id}
    return Surroundings(found["tasks"], others, found["datasets"])


NOTHING = Surroundings()


def clean(control: Control, before: Surroundings = NOTHING) -> str | None:
    """Wait until nothing of the last test is left; what is, after a deadline."""
    control.unpublish_all_but(before.datasets)
    if tasks := control.call(facts.wait_until_idle, CLEANING_S, before.tasks, before.clients):
        return f"the scheduler still knows {tasks} tasks"
    others = control.call(facts.processing) if before.is_shared else frozenset()
    waited = control.call_workers(facts.wait_until_worker_idle, CLEANING_S, others)
    if running := sum(waited.values()):
        return f"workers still run {running} tasks"
    workers = control.call(facts.surroundings)["workers"]
    if before.workers not in (workers, None):
        return f"it has {workers} workers instead of {before.workers}"
    return None
