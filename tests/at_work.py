"""Clusters of hollow workers with a client, and what is sent to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeAlias, TypeVar

from distributed import Client, metrics

from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.virtual.loop import EPOCH

Make: TypeAlias = Callable[..., tuple[Client, Control]]
Sent = TypeVar("Sent", bound=Callable[..., Any])

PATIENCE_S = 100.0
"""More than anything in these tests takes on a busy machine."""


def by_value(function: Sent) -> Sent:
    """Let a function be sent as it is.

    Otherwise each scheduler that gets it imports its module, and all that a test imports, which
    takes many times as long as what the scheduler is to do.
    """
    function.__qualname__ = f"<sent>.{function.__name__}"
    return function


@by_value
def inc(x: Any) -> int:
    """Stand for a task: hollow workers compute nothing."""
    return 1


def now() -> float:
    """Return the virtual time, which clients read."""
    return float(metrics.time() - EPOCH)


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
