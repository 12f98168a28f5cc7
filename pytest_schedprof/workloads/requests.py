"""Work that consists of requests to the scheduler rather than of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

from distributed import Client, Event, Lock, Queue, Semaphore, Variable

from pytest_schedprof.workloads.tasks import finish, inc

CLIENTS = 10
QUESTIONS = 4
"""Number of questions in a round of `many_questions`."""
TOOLS = 5
"""Number of things that a round of `coordination` or `records` uses."""


def many_clients(client: Client, size: int) -> None:
    """Run the tasks from ten clients."""
    each = range(max(1, size // CLIENTS))
    with _ten_clients(client) as clients:
        for one, futures in [(one, one.map(inc, each, pure=False)) for one in clients]:
            finish(one, futures)


def many_questions(client: Client, size: int) -> None:
    """Ask the scheduler from ten clients about its workers and tasks; run only one task."""
    with _ten_clients(client) as clients:
        finish(client, [client.submit(inc, 0, pure=False)])
        for _ in range(max(1, size // CLIENTS // QUESTIONS)):
            for one in clients:
                one.scheduler_info()
                one.nthreads()
                one.has_what()
                one.processing()


def heartbeats(client: Client, size: int) -> None:
    """Run a chain of tasks while ten clients do nothing but tell that they live."""
    with _ten_clients(client):
        future = client.submit(inc, 0, pure=False)
        for _ in range(size // 2):
            future = client.submit(inc, future, pure=False)
        finish(client, [future])


def task_stream(client: Client, size: int) -> None:
    """Run tasks of which the scheduler keeps a stream, and ask for it."""
    client.get_task_stream()
    try:
        for _ in range(TOOLS):
            finish(client, client.map(inc, range(max(1, size // TOOLS)), pure=False))
            client.get_task_stream(count=size)
    finally:
        client.unregister_scheduler_plugin("task-stream")


@contextmanager
def _ten_clients(client: Client) -> Iterator[list[Client]]:
    """Connect ten more clients to the same scheduler."""
    scheduler: Any = client.scheduler
    with ExitStack() as opened:
        yield [
            opened.enter_context(
                Client(scheduler.address, security=client.security, set_as_default=False)
            )
            for _ in range(CLIENTS)
        ]


def broadcasts(client: Client, size: int) -> None:
    """Run a function on all workers, once for each fifty of the size; run only one task."""
    finish(client, [client.submit(inc, 0, pure=False)])
    for _ in range(max(1, size // 50)):
        client.run(inc, 0)


def coordination(client: Client, size: int) -> None:
    """Use a lock, a semaphore, a queue, a variable and an event, in turns; run only one task."""
    run = uuid4().hex
    with client.as_current():
        lock, semaphore = Lock(f"lock-{run}"), Semaphore(2, name=f"semaphore-{run}")
        queue, variable, event = Queue(run), Variable(run), Event(run)
        future = client.submit(inc, 0, pure=False)
        finish(client, [future])
        for number in range(max(1, size // TOOLS)):
            with lock, semaphore:
                queue.put(future if number % 2 else number)
            variable.set(queue.get())
            variable.get()
            event.set()
            event.clear()
        variable.delete()
        semaphore.close()
        queue.close()


def records(client: Client, size: int) -> None:
    """Publish data sets, set metadata and log events, and read them; run only one task."""
    run = uuid4().hex
    future = client.submit(inc, 0, pure=False)
    finish(client, [future])
    for number in range(max(1, size // TOOLS)):
        client.publish_dataset(future, name=f"{run}-{number}")
        client.list_datasets()
        client.set_metadata([run, number], number)
        client.get_metadata([run, number])
        client.log_event(run, {"number": number})
    client.get_events(run)
    for number in range(max(1, size // TOOLS)):
        client.unpublish_dataset(f"{run}-{number}")


def scaling(client: Client, size: int) -> None:
    """Ask again and again how many workers there should be, as adaptive clusters do."""
    futures = client.map(inc, range(size), pure=False)
    scheduler: Any = client.scheduler
    for _ in range(max(1, size // TOOLS)):
        client.sync(scheduler.adaptive_target)
        client.sync(scheduler.workers_to_close)
    finish(client, futures)


def moved_data(client: Client, size: int) -> None:
    """Scatter data, copy and balance it, ask where it is, work on it, and gather it."""
    with client.as_current():
        data = client.scatter(list(range(max(2, size // 2))), hash=False)
        client.replicate(data[: len(data) // 2], n=2)
        client.rebalance(data)
        client.who_has(data)
        client.gather(data, direct=False)
    finish(client, client.map(inc, data, pure=False))
