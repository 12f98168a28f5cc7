"""Clusters of hollow workers with a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeAlias

from distributed import Client

from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.control.control import Control

Make: TypeAlias = Callable[..., tuple[Client, Control]]


@contextmanager
def at_work(kind: type[OwnCluster], workers: int = 4, /, **options: str) -> Iterator[Client]:
    """Start a cluster, and connect to it."""
    cluster = kind(workers, timeout_s=60, options=options)
    with closing(cluster), Client(cluster.address) as client:
        yield client


@contextmanager
def making() -> Iterator[Make]:
    """Yield a function that starts a virtual cluster; it returns a client and a control line."""
    opened: list[Any] = []

    def started(workers: int = 4, **options: str) -> tuple[Client, Control]:
        cluster = VirtualCluster(
            workers, timeout_s=60, options={"duration": "1s", "latency": "0", **options}
        )
        opened.append(cluster)
        control = cluster.open_line(30)
        cluster.begin_test()
        client = Client(cluster.address)
        opened.extend([control, client])
        return client, control

    yield started
    for resource in reversed(opened):
        resource.close()
