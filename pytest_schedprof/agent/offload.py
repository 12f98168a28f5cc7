"""The thread to which the scheduler offloads the intake of graphs."""

from __future__ import annotations

from collections.abc import Callable

import distributed.utils


def in_offload_thread(function: Callable[[], object]) -> None:
    """Run a function before whatever is offloaded from now on; the only thread keeps the order."""
    if executor := getattr(distributed.utils, "_offload_executor", None):
        executor.submit(function)
