"""Shapes of graphs that have slowed schedulers down."""

from __future__ import annotations

from math import isqrt
from typing import Any
from uuid import uuid4

from distributed import Client, Future

from pytest_schedprof.workloads.tasks import finish, inc, join

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
    parts = [client.map(join, [each] * width, range(width), pure=False) for each in inputs]
    columns = [list(column) for column in zip(*parts, strict=True)]
    finish(client, [client.submit(join, *column, pure=False) for column in columns])


def stealing_imbalance(client: Client, size: int) -> None:
    """Run tasks that would all run best on the one worker that holds their input."""
    worker = next(iter(client.scheduler_info(n_workers=1)["workers"]))
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
