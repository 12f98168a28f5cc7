"""Workloads that are hard for schedulers, each of a given size; a call returns when it is done.

They work on real and simulated clusters: tasks compute next to nothing, and no result is fetched.
`WORKLOADS` has all of them by name, for `pytest.mark.parametrize`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from math import isqrt
from typing import Any, TypeAlias
from uuid import uuid4

from distributed import (
    Client,
    Event,
    Future,
    Lock,
    Queue,
    Semaphore,
    Variable,
    futures_of,
    wait,
)

from pytest_schedprof.record.replaying import replay as replay

Workload: TypeAlias = Callable[[Client, int], None]
"""Takes a client and a size, which is about the number of tasks or of dependencies."""

PATIENCE_S = 600
CHAIN = 50
CLIENTS = 10
QUESTIONS = 4
"""Number of questions in a round of `many_questions`."""
TOOLS = 5
"""Number of things that a round of `coordination` or `records` uses."""
STEPS = 5
DAYS = 20
DROPS = 5
NOWHERE = {"schedprof-nowhere": 1.0}
"""A resource that no worker has."""


def _inc(number: Any) -> int:
    return 1


def _join(*parts: Any) -> int:
    return 1


def _finish(client: Client, futures: Sequence[Future[Any]]) -> None:
    with client.as_current():  # its event loop receives the updates
        wait(futures, timeout=PATIENCE_S)


def many_tiny_tasks(client: Client, size: int) -> None:
    """Run independent tasks."""
    _finish(client, client.map(_inc, range(size), pure=False))


def fan_out(client: Client, size: int) -> None:
    """Run many tasks that depend on one result."""
    root = client.submit(_inc, 0, pure=False)
    _finish(client, client.map(_join, [root] * size, range(size), pure=False))


def fan_in(client: Client, size: int) -> None:
    """Run one task that depends on the results of all others."""
    _finish(client, [client.submit(_join, *client.map(_inc, range(size), pure=False), pure=False)])


def deep_chains(client: Client, size: int) -> None:
    """Run chains of fifty tasks, each of which depends on the one before."""
    level = client.map(_inc, range(max(1, size // CHAIN)), pure=False)
    for _ in range(CHAIN - 1):
        level = client.map(_inc, level, pure=False)
    _finish(client, level)


def tree_reduction(client: Client, size: int) -> None:
    """Join results in pairs until one is left."""
    level = client.map(_inc, range(max(2, size // 2)), pure=False)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = client.map(_join, level[:-1:2], level[1::2], pure=False) + odd
    _finish(client, level)


def all_to_all(client: Client, size: int) -> None:
    """Split every input for every output, as a task-based shuffle does."""
    width = max(2, isqrt(size))
    inputs = client.map(_inc, range(width), pure=False)
    parts = [client.map(_join, [each] * width, range(width), pure=False) for each in inputs]
    columns = [list(column) for column in zip(*parts, strict=True)]
    _finish(client, [client.submit(_join, *column, pure=False) for column in columns])


def rechunk(client: Client, size: int) -> None:
    """Rechunk an array from rows to columns."""
    import dask
    import dask.array

    width = max(2, isqrt(size))
    with dask.config.set({"array.rechunk.method": "tasks"}):
        rows = dask.array.zeros((width, width), chunks=(1, width), name=f"rows-{uuid4().hex}")
        _finish(client, futures_of(client.persist(rows.rechunk((width, 1)))))


def p2p_rechunk(client: Client, size: int) -> None:
    """Rechunk an array from rows to columns by P2P: workers send each other the parts."""
    import dask
    import dask.array

    width = max(2, isqrt(size))
    with dask.config.set({"array.rechunk.method": "p2p"}):
        rows = dask.array.zeros((width, width), chunks=(1, width), name=f"rows-{uuid4().hex}")
        _finish(client, futures_of(client.persist(rows.rechunk((width, 1)))))


def stealing_imbalance(client: Client, size: int) -> None:
    """Run tasks that would all run best on the one worker that holds their input."""
    worker = next(iter(client.scheduler_info(n_workers=1)["workers"]))
    root = client.submit(_inc, 0, workers=worker, pure=False)
    _finish(
        client,
        client.map(
            _join,
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
    graph = {f"prefix{number}-{run}": (_inc, number) for number in range(size)}
    _finish(client, client.get(graph, list(graph), sync=False))


def prefixes_of(client: Client, size: int, prefixes: int) -> None:
    """Run independent tasks that share so many prefixes; each run has the same ones."""
    run = uuid4().hex
    graph = {f"prefix{number % prefixes}-{run}{number}": (_inc, number) for number in range(size)}
    _finish(client, client.get(graph, list(graph), sync=False))


def aliases(client: Client, size: int) -> None:
    """Run a graph in which every second key is only another name of a task."""
    run = uuid4().hex
    tasks: dict[str, Any] = {f"task-{run}-{number}": (_inc, number) for number in range(size)}
    others = {key.replace("task", "alias"): key for key in list(tasks)[::2]}
    _finish(client, client.get({**tasks, **others}, list(others), sync=False))


def annotated_tasks(client: Client, size: int) -> None:
    """Run tasks in batches of ten, each with another priority and other annotations."""
    from dask.base import annotate

    futures: list[Future[Any]] = []
    for number in range(max(1, size // 10)):
        with annotate(priority=number % 3, retries=number % 2, batch=number):
            futures += client.map(_inc, range(10), pure=False)
    _finish(client, futures)


def deep_collections(client: Client, size: int) -> None:
    """Persist delayed values, each of which ends a chain of fifty layers."""
    from dask.delayed import delayed

    step = delayed(_inc, pure=False)
    level = [step(number) for number in range(max(1, size // CHAIN))]
    for _ in range(CHAIN - 1):
        level = [step(each) for each in level]
    _finish(client, futures_of(client.persist(level)))


def submission_only(client: Client, size: int) -> None:
    """Submit tasks that no worker can run, so that only the graph's intake is measured."""
    stuck = client.map(_inc, range(size), resources=NOWHERE, pure=False)
    _finish(client, [client.submit(_inc, 0, pure=False)])  # the scheduler takes it in after them
    client.cancel(stuck)


def cancelled_tasks(client: Client, size: int) -> None:
    """Cancel tasks that no worker can run; run only one task."""
    client.cancel(client.map(_inc, range(size), resources=NOWHERE, pure=False))
    _finish(client, [client.submit(_inc, 0, pure=False)])


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


def many_clients(client: Client, size: int) -> None:
    """Run the tasks from ten clients."""
    each = range(max(1, size // CLIENTS))
    with _ten_clients(client) as clients:
        for one, futures in [(one, one.map(_inc, each, pure=False)) for one in clients]:
            _finish(one, futures)


def many_questions(client: Client, size: int) -> None:
    """Ask the scheduler from ten clients about its workers and tasks; run only one task."""
    with _ten_clients(client) as clients:
        _finish(client, [client.submit(_inc, 0, pure=False)])
        for _ in range(max(1, size // CLIENTS // QUESTIONS)):
            for one in clients:
                one.scheduler_info()
                one.nthreads()
                one.has_what()
                one.processing()


def broadcasts(client: Client, size: int) -> None:
    """Run a function on all workers, once for each fifty of the size; run only one task."""
    _finish(client, [client.submit(_inc, 0, pure=False)])
    for _ in range(max(1, size // 50)):
        client.run(_inc, 0)


def coordination(client: Client, size: int) -> None:
    """Use a lock, a semaphore, a queue, a variable and an event, in turns; run only one task."""
    run = uuid4().hex
    with client.as_current():
        lock, semaphore = Lock(f"lock-{run}"), Semaphore(2, name=f"semaphore-{run}")
        queue, variable, event = Queue(run), Variable(run), Event(run)
        future = client.submit(_inc, 0, pure=False)
        _finish(client, [future])
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
    future = client.submit(_inc, 0, pure=False)
    _finish(client, [future])
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
    futures = client.map(_inc, range(size), pure=False)
    scheduler: Any = client.scheduler
    for _ in range(max(1, size // TOOLS)):
        client.sync(scheduler.adaptive_target)
        client.sync(scheduler.workers_to_close)
    _finish(client, futures)


def moved_data(client: Client, size: int) -> None:
    """Scatter data, copy and balance it, ask where it is, work on it, and gather it."""
    with client.as_current():
        data = client.scatter(list(range(max(2, size // 2))), hash=False)
        client.replicate(data[: len(data) // 2], n=2)
        client.rebalance(data)
        client.who_has(data)
        client.gather(data, direct=False)
    _finish(client, client.map(_inc, data, pure=False))


def cancelled(client: Client, size: int) -> None:
    """Cancel half of the tasks, with what depends on them, before any of them ends."""
    roots = client.map(_inc, range(max(2, size // 2)), pure=False)
    ends = client.map(_inc, roots, pure=False)
    client.cancel(roots[::2], force=True)
    _finish(client, ends[1::2])


def seen_again(client: Client, size: int) -> None:
    """Persist a growing graph in steps: each time the scheduler knows most of it already."""
    run = uuid4().hex
    graph: dict[str, Any] = {}
    held: list[Future[Any]] = []
    for step in range(STEPS):
        names = [f"task-{run}-{step}-{number}" for number in range(max(1, size // STEPS))]
        before = list(graph)[-len(names) :]
        graph |= {
            name: (_inc, before[number] if before else 0) for number, name in enumerate(names)
        }
        held += client.get(dict(graph), names, sync=False)
        _finish(client, held)


def workers_leave(client: Client, size: int) -> None:
    """Retire half of the workers while there is work; their results move to others."""
    futures = client.map(_inc, range(size), pure=False)
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    client.retire_workers(workers[: len(workers) // 2])
    _finish(client, futures)


def workers_restart(client: Client, size: int) -> None:
    """Restart all workers between two halves of the work."""
    _finish(client, client.map(_inc, range(size // 2), pure=False))
    client.restart(timeout=PATIENCE_S)
    _finish(client, client.map(_inc, range(size // 2), pure=False))


async def _drop_one(dask_scheduler: Any = None) -> None:
    """Remove the first worker that holds results or has work; runs on the scheduler."""
    workers = list(dask_scheduler.workers.values())
    busy = [each for each in workers if each.processing or each.has_what]
    address = (busy or workers)[0].address
    await dask_scheduler.remove_worker(address, stimulus_id="schedprof-churn", expected=True)


def worker_churn(client: Client, size: int) -> None:
    """Remove a worker five times while there is work; each time another takes its place.

    Its results and its tasks are lost, and others compute them again.
    """
    workers = len(client.nthreads())
    futures = []
    for _ in range(DROPS):
        futures += client.map(_inc, range(max(1, size // DROPS)), pure=False)
        client.run_on_scheduler(_drop_one)
        client.wait_for_workers(workers, timeout=PATIENCE_S)
    _finish(client, futures)


def _frame(partitions: int) -> Any:
    """Make a time series whose partitions are an hour each."""
    import dask

    start = datetime(2000, 1, 1)
    end = start + timedelta(hours=max(1, partitions))
    return dask.datasets.timeseries(
        start=str(start), end=str(end), freq="10min", partition_freq="1h", seed=1
    )


def set_index(client: Client, size: int) -> None:
    """Sort a time series by another column, with a task-based shuffle."""
    import dask

    frame = _frame(max(2, isqrt(size)))
    divisions = list(range(0, 2001, max(1, 2000 // frame.npartitions)))
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        _finish(client, futures_of(client.persist(frame.set_index("id", divisions=divisions))))


def column_arithmetic(client: Client, size: int) -> None:
    """Add and subtract columns, then sum up the result."""
    frame = _frame(size // 8)
    _finish(client, [client.compute((frame.x + 1 + 2 - frame.y).sum())])


def first_rows(client: Client, size: int) -> None:
    """Compute the head of a persisted frame ten times."""
    frame = client.persist(_frame(size // 2))
    _finish(client, futures_of(frame))
    for _ in range(10):
        _finish(client, [client.compute(frame.head(compute=False))])


def anomaly_mean(client: Client, size: int) -> None:
    """Subtract from each day the mean of such days, and average the differences."""
    days = client.map(_inc, range(max(DAYS, size // 2)), pure=False)
    usual = [client.submit(_join, *days[day::DAYS], pure=False) for day in range(DAYS)]
    matching = [usual[day % DAYS] for day in range(len(days))]
    _finish(
        client, [client.submit(_join, *client.map(_join, days, matching, pure=False), pure=False)]
    )


WORKLOADS: dict[str, Workload] = {
    workload.__name__: workload
    for workload in (
        many_tiny_tasks,
        fan_out,
        fan_in,
        deep_chains,
        tree_reduction,
        all_to_all,
        rechunk,
        p2p_rechunk,
        stealing_imbalance,
        many_prefixes,
        aliases,
        annotated_tasks,
        deep_collections,
        submission_only,
        cancelled_tasks,
        many_clients,
        many_questions,
        broadcasts,
        coordination,
        records,
        scaling,
        moved_data,
        cancelled,
        seen_again,
        workers_leave,
        workers_restart,
        worker_churn,
        set_index,
        column_arithmetic,
        first_rows,
        anomaly_mean,
    )
}
