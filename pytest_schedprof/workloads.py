"""Shapes of work that have hurt schedulers, each of a given size, run to its end.

They work on real and simulated clusters alike: tasks compute next to nothing, and no result is
fetched. `WORKLOADS` has all of them by name, for `pytest.mark.parametrize`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from math import isqrt
from typing import Any, TypeAlias
from uuid import uuid4

from distributed import Client, Future, futures_of, wait

Workload: TypeAlias = Callable[[Client, int], None]
"""Takes a client and a size: about how many tasks there are, or connections between them."""

PATIENCE_S = 600
CHAIN = 50
CLIENTS = 10
DAYS = 20
NOWHERE = {"schedprof-nowhere": 1.0}
"""A resource that no worker has."""


def _inc(number: Any) -> int:
    return 1


def _join(*parts: Any) -> int:
    return 1


def _finish(client: Client, futures: Sequence[Future[Any]]) -> None:
    with client.as_current():  # whose event loop it is that hears of them
        wait(futures, timeout=PATIENCE_S)


def many_tiny_tasks(client: Client, size: int) -> None:
    """Tasks that have nothing to do with each other."""
    _finish(client, client.map(_inc, range(size), pure=False))


def fan_out(client: Client, size: int) -> None:
    """One result that all others need."""
    root = client.submit(_inc, 0, pure=False)
    _finish(client, client.map(_join, [root] * size, range(size), pure=False))


def fan_in(client: Client, size: int) -> None:
    """One task that needs all others' results."""
    _finish(client, [client.submit(_join, *client.map(_inc, range(size), pure=False), pure=False)])


def deep_chains(client: Client, size: int) -> None:
    """Chains of fifty tasks, each of which needs the one before."""
    level = client.map(_inc, range(max(1, size // CHAIN)), pure=False)
    for _ in range(CHAIN - 1):
        level = client.map(_inc, level, pure=False)
    _finish(client, level)


def tree_reduction(client: Client, size: int) -> None:
    """Pairs are joined until one is left."""
    level = client.map(_inc, range(max(2, size // 2)), pure=False)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = client.map(_join, level[:-1:2], level[1::2], pure=False) + odd
    _finish(client, level)


def all_to_all(client: Client, size: int) -> None:
    """Every input is split for every output, as a shuffle by tasks does."""
    width = max(2, isqrt(size))
    inputs = client.map(_inc, range(width), pure=False)
    parts = [client.map(_join, [each] * width, range(width), pure=False) for each in inputs]
    columns = [list(column) for column in zip(*parts, strict=True)]
    _finish(client, [client.submit(_join, *column, pure=False) for column in columns])


def rechunk(client: Client, size: int) -> None:
    """An array's rows become its columns."""
    import dask
    import dask.array

    width = max(2, isqrt(size))
    with dask.config.set({"array.rechunk.method": "tasks"}):
        rows = dask.array.zeros((width, width), chunks=(1, width), name=f"rows-{uuid4().hex}")
        _finish(client, futures_of(client.persist(rows.rechunk((width, 1)))))


def stealing_imbalance(client: Client, size: int) -> None:
    """All tasks would run best on one worker, where their input is."""
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
    """No two tasks have the same name."""
    run = uuid4().hex
    graph = {f"prefix{number}-{run}": (_inc, number) for number in range(size)}
    _finish(client, client.get(graph, list(graph), sync=False))


def submission_only(client: Client, size: int) -> None:
    """Tasks that no worker can run: the graph is taken in, and that is all."""
    stuck = client.map(_inc, range(size), resources=NOWHERE, pure=False)
    _finish(client, [client.submit(_inc, 0, pure=False)])  # comes after them
    client.cancel(stuck)


def many_clients(client: Client, size: int) -> None:
    """Ten clients, each with its part of the tasks."""
    scheduler: Any = client.scheduler
    clients = [
        Client(scheduler.address, security=client.security, set_as_default=False)
        for _ in range(CLIENTS)
    ]
    try:
        each = range(max(1, size // CLIENTS))
        for one, futures in [(one, one.map(_inc, each, pure=False)) for one in clients]:
            _finish(one, futures)
    finally:
        for one in clients:
            one.close()


def workers_leave(client: Client, size: int) -> None:
    """Half of the workers retire while there is work, and hand over what they have."""
    futures = client.map(_inc, range(size), pure=False)
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    client.retire_workers(workers[: len(workers) // 2])
    _finish(client, futures)


def workers_restart(client: Client, size: int) -> None:
    """All workers go and come back between two halves of the work."""
    _finish(client, client.map(_inc, range(size // 2), pure=False))
    client.restart(timeout=PATIENCE_S)
    _finish(client, client.map(_inc, range(size // 2), pure=False))


def _frame(partitions: int) -> Any:
    """Of an hour each."""
    import dask

    start = datetime(2000, 1, 1)
    end = start + timedelta(hours=max(1, partitions))
    return dask.datasets.timeseries(
        start=str(start), end=str(end), freq="10min", partition_freq="1h", seed=1
    )


def set_index(client: Client, size: int) -> None:
    """A time series of so many partitions is sorted by another column, by tasks."""
    import dask

    frame = _frame(max(2, isqrt(size)))
    divisions = list(range(0, 2001, max(1, 2000 // frame.npartitions)))
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        _finish(client, futures_of(client.persist(frame.set_index("id", divisions=divisions))))


def column_arithmetic(client: Client, size: int) -> None:
    """Sums and differences of columns, then the sum of all."""
    frame = _frame(size // 8)
    _finish(client, [client.compute((frame.x + 1 + 2 - frame.y).sum())])


def first_rows(client: Client, size: int) -> None:
    """The head of a frame that is held by the workers, ten times."""
    frame = client.persist(_frame(size // 2))
    _finish(client, futures_of(frame))
    for _ in range(10):
        _finish(client, [client.compute(frame.head(compute=False))])


def anomaly_mean(client: Client, size: int) -> None:
    """Each day less what is usual on such days, and the mean of that."""
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
        stealing_imbalance,
        many_prefixes,
        submission_only,
        many_clients,
        workers_leave,
        workers_restart,
        set_index,
        column_arithmetic,
        first_rows,
        anomaly_mean,
    )
}
