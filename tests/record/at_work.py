"""Clusters of hollow workers with a client, for what is recorded and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client

from pytest_schedprof.clusters.own import OwnCluster


@contextmanager
def at_work(kind: type[OwnCluster], workers: int = 4, /, **options: str) -> Iterator[Client]:
    """Start a cluster, and connect to it."""
    cluster = kind(workers, timeout_s=60, options=options)
    try:
        with Client(cluster.address) as client:
            yield client
    finally:
        cluster.close()
