"""What tasks of workloads compute, which is next to nothing, and how workloads wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributed import Client, Future, wait

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
