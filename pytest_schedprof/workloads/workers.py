"""Work during which workers leave and come."""

from __future__ import annotations

from typing import Any

from distributed import Client

from pytest_schedprof.workloads.tasks import PATIENCE_S, finish, inc

DROPS = 5


def workers_leave(client: Client, size: int) -> None:
    """Retire half of the workers while there is work; their results move to others."""
    futures = client.map(inc, range(size), pure=False)
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
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
    busy = [each for each in workers if each.processing or each.has_what]
    address = (busy or workers)[0].address
    await dask_scheduler.remove_worker(address, stimulus_id="schedprof-churn", expected=True)
