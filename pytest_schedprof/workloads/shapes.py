"""Shapes of graphs that have slowed schedulers down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import isqrt
from typing import Any
from uuid import uuid4

from distributed import Client, Event, Future, Lock, Queue, Semaphore, Variable, wait

__all__ = [
    "aliases",
    "all_to_all",
    "annotated_tasks",
    "anomaly_mean",
    "broadcasts",
    "cancelled",
    "cancelled_tasks",
    "coordination",
    "deep_chains",
    "fan_in",
    "fan_out",
    "heartbeats",
    "many_clients",
    "many_prefixes",
    "many_questions",
    "many_tiny_tasks",
    "moved_data",
    "pure_tasks",
    "records",
    "retried",
    "scaling",
    "seen_again",
    "stealing_imbalance",
    "submission_only",
    "task_stream",
    "tree_reduction",
    "worker_churn",
    "workers_leave",
    "workers_restart",
]

PATIENCE_S = 600


def inc(number: Any) -> int:
    """Compute nothing from one argument."""
    return 1


def join(*parts: Any) -> int:
    """Compute nothing from several results."""
    return 1


def finish(client: Client, futures: Sequence[Future[Any]]) -> None:
    """Wait until all tasks are done."""
    with client.as_current():  # its event loop receives the updates
        wait(futures, timeout=PATIENCE_S)


CHAIN = 50
STEPS = 5
DAYS = 20
NOWHERE = {"schedprof-nowhere": 1.0}
"""A resource that no worker has."""


def many_tiny_tasks(client: Client, size: int) -> None:
    """Run independent tasks."""
    finish(client, client.map(inc, range(size), pure=False))


def pure_tasks(client: Client, size: int) -> None:
    """Run independent tasks whose keys tell what they compute, as is the default of `map`."""
    finish(client, client.map(inc, range(size)))


def fan_out(client: Client, size: int) -> None:
    """Run many tasks that depend on one result."""
    root = client.submit(inc, 0, pure=False)
    finish(client, client.map(join, [root] * size, range(size), pure=False))


def fan_in(client: Client, size: int) -> None:
    """Run one task that depends on the results of all others."""
    finish(client, [client.submit(join, *client.map(inc, range(size), pure=False), pure=False)])


def deep_chains(client: Client, size: int) -> None:
    """Run chains of fifty tasks, each of which depends on the one before."""
    level = client.map(inc, range(max(1, size // CHAIN)), pure=False)
    for _ in range(CHAIN - 1):
        level = client.map(inc, level, pure=False)
    finish(client, level)


def tree_reduction(client: Client, size: int) -> None:
    """Join results in pairs until one is left."""
    level = client.map(inc, range(max(2, size // 2)), pure=False)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = client.map(join, level[:-1:2], level[1::2], pure=False) + odd
    finish(client, level)


def all_to_all(client: Client, size: int) -> None:
    """Split every input for every output, as a task-based shuffle does."""
    width = max(2, isqrt(size))
    inputs = client.map(inc, range(width), pure=False)
    parts = [client.map(join, [part] * width, range(width), pure=False) for part in inputs]
    columns = [list(column) for column in zip(*parts, strict=True)]
    finish(client, [client.submit(join, *column, pure=False) for column in columns])


def stealing_imbalance(client: Client, size: int) -> None:
    """Run tasks that would all run best on the one worker that holds their input."""
    worker = next(iter(client.nthreads()))
    root = client.submit(inc, 0, workers=worker, pure=False)
    finish(
        client,
        client.map(
            join,
            [root] * size,
            range(size),
            workers=worker,
            allow_other_workers=True,
            pure=False,
        ),
    )


def many_prefixes(client: Client, size: int) -> None:
    """Run tasks that each have a prefix of their own."""
    run = uuid4().hex
    graph = {f"prefix{number}-{run}": (inc, number) for number in range(size)}
    finish(client, client.get(graph, list(graph), sync=False))


def aliases(client: Client, size: int) -> None:
    """Run a graph in which every second key is only another name of a task."""
    run = uuid4().hex
    tasks: dict[str, Any] = {f"task-{run}-{number}": (inc, number) for number in range(size)}
    others = {key.replace("task", "alias"): key for key in list(tasks)[::2]}
    finish(client, client.get({**tasks, **others}, list(others), sync=False))


def annotated_tasks(client: Client, size: int) -> None:
    """Run tasks in batches of ten, each with another priority and other annotations."""
    from dask.base import annotate

    futures: list[Future[Any]] = []
    for number in range(max(1, size // 10)):
        with annotate(priority=number % 3, retries=number % 2, batch=number):
            futures += client.map(inc, range(10), pure=False)
    finish(client, futures)


def submission_only(client: Client, size: int) -> None:
    """Submit tasks that no worker can run, so that only the graph's intake is measured."""
    stuck = client.map(inc, range(size), resources=NOWHERE, pure=False)
    finish(client, [client.submit(inc, 0, pure=False)])  # the scheduler takes it in after them
    client.cancel(stuck)


def cancelled_tasks(client: Client, size: int) -> None:
    """Cancel tasks that no worker can run; run only one task."""
    client.cancel(client.map(inc, range(size), resources=NOWHERE, pure=False))
    finish(client, [client.submit(inc, 0, pure=False)])


def cancelled(client: Client, size: int) -> None:
    """Cancel half of the tasks, with what depends on them, before any of them ends."""
    roots = client.map(inc, range(max(2, size // 2)), pure=False)
    ends = client.map(inc, roots, pure=False)
    client.cancel(roots[::2], force=True)
    finish(client, ends[1::2])


def retried(client: Client, size: int) -> None:
    """Run tasks that may fail twice, and retry once more those that failed for good."""
    futures = client.map(inc, range(size), retries=2, pure=False)
    finish(client, futures)
    client.retry([future for future in futures if future.status == "error"])
    finish(client, futures)


def seen_again(client: Client, size: int) -> None:
    """Persist a growing graph in steps: each time the scheduler knows most of it already."""
    run = uuid4().hex
    graph: dict[str, Any] = {}
    held: list[Future[Any]] = []
    for step in range(STEPS):
        names = [f"task-{run}-{step}-{number}" for number in range(max(1, size // STEPS))]
        before = list(graph)[-len(names) :]
        graph |= {name: (inc, before[number] if before else 0) for number, name in enumerate(names)}
        held += client.get(dict(graph), names, sync=False)
        finish(client, held)


def anomaly_mean(client: Client, size: int) -> None:
    """Subtract from each day the mean of such days, and average the differences."""
    days = client.map(inc, range(max(DAYS, size // 2)), pure=False)
    usual = [client.submit(join, *days[day::DAYS], pure=False) for day in range(DAYS)]
    matching = [usual[day % DAYS] for day in range(len(days))]
    finish(client, [client.submit(join, *client.map(join, days, matching, pure=False), pure=False)])


DROPS = 5


def workers_leave(client: Client, size: int) -> None:
    """Retire half of the workers while there is work; their results move to others."""
    futures = client.map(inc, range(size), pure=False)
    workers = list(client.nthreads())
    client.retire_workers(workers[: len(workers) // 2])
    finish(client, futures)


def workers_restart(client: Client, size: int) -> None:
    """Restart all workers between two halves of the work."""
    finish(client, client.map(inc, range(size // 2), pure=False))
    client.restart(timeout=PATIENCE_S)
    finish(client, client.map(inc, range(size // 2), pure=False))


def worker_churn(client: Client, size: int) -> None:
    """Remove a worker five times while there is work; each time another takes its place.

    Its results and its tasks are lost, and others compute them again.
    """
    workers = len(client.nthreads())
    futures = []
    for _ in range(DROPS):
        futures += client.map(inc, range(max(1, size // DROPS)), pure=False)
        client.run_on_scheduler(_drop_one)
        client.wait_for_workers(workers, timeout=PATIENCE_S)
    finish(client, futures)


async def _drop_one(dask_scheduler: Any = None) -> None:
    """Remove the first worker that holds results or has work; runs on the scheduler."""
    workers = list(dask_scheduler.workers.values())
    busy = [worker for worker in workers if worker.processing or worker.has_what]
    address = (busy or workers)[0].address
    await dask_scheduler.remove_worker(address, stimulus_id="schedprof-churn", expected=True)


CLIENTS = 10
QUESTIONS = 4
"""Number of questions in a round of `many_questions`."""
TOOLS = 5
"""Number of things that a round of `coordination` or `records` uses."""


def many_clients(client: Client, size: int) -> None:
    """Run the tasks from ten clients."""
    numbers = range(max(1, size // CLIENTS))
    with _ten_clients(client) as clients:
        started = [(owner, owner.map(inc, numbers, pure=False)) for owner in clients]
        for owner, futures in started:
            finish(owner, futures)


def many_questions(client: Client, size: int) -> None:
    """Ask the scheduler from ten clients about its workers and tasks; run only one task."""
    with _ten_clients(client) as clients:
        finish(client, [client.submit(inc, 0, pure=False)])
        for _ in range(max(1, size // CLIENTS // QUESTIONS)):
            for asker in clients:
                asker.scheduler_info()
                asker.nthreads()
                asker.has_what()
                asker.processing()


def heartbeats(client: Client, size: int) -> None:
    """Run a chain of tasks while ten clients do nothing but send heartbeats."""
    with _ten_clients(client):
        future = client.submit(inc, 0, pure=False)
        for _ in range(size // 2):
            future = client.submit(inc, future, pure=False)
        finish(client, [future])


def task_stream(client: Client, size: int) -> None:
    """Run tasks, and ask the scheduler for their task stream."""
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
    """Ask repeatedly how many workers there should be, as adaptive clusters do."""
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
