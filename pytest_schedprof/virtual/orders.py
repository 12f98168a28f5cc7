"""Puts in order what clients send in the order of sets, and sets of what has a name.

The hash seed of the test's process is another one in each session, and orders the sets of strings
there. The scheduler's process has a fixed seed: what it gets in one order is in one order there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

from distributed import Scheduler, scheduler
from distributed.active_memory_manager import ActiveMemoryManagerPolicy
from distributed.comm.core import Comm
from distributed.scheduler import TaskGroup
from distributed.worker_state_machine import TaskState

OF_SETS = frozenset(
    {
        "call_stack",
        "cancel-keys",
        "gather",
        "rebalance",
        "replicate",
        "retry",
        "update-graph",
        "who_has",
    }
)
"""Requests whose keys are those of a set, in whose order the client sends them."""


def _ordered(workers: Any) -> Any:
    """Return the workers that a task may run on in order, if they are a set."""
    return sorted(workers, key=str) if isinstance(workers, (set, frozenset)) else workers


def order_requests(receiver: Scheduler) -> None:
    """Put in order the keys of what a scheduler reads that has not been started yet."""
    handle = receiver.handle_comm

    def handle_in_order(comm: Comm) -> Any:
        comm.read = _in_order(comm.read)  # type: ignore[method-assign, assignment]
        return handle(comm)

    vars(receiver)["handle_comm"] = handle_in_order


def _in_order(read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a connection's method for reading a message, or a batch, that orders the keys."""

    @wraps(read)
    async def read_in_order(*args: Any, **keywords: Any) -> Any:
        received = await read(*args, **keywords)
        for message in received if isinstance(received, (list, tuple)) else (received,):
            if isinstance(message, dict) and message.get("op") in OF_SETS:
                keys = message.get("keys")
                if isinstance(keys, (list, set, tuple)):  # those of a list come as a tuple
                    message["keys"] = type(keys)(sorted(keys, key=str))
                annotations = message.get("annotations") or {}
                if "workers" in annotations:
                    annotations["workers"] = _ordered(annotations["workers"])
        return received

    return read_in_order


def order_graphs(sent: Callable[[Mapping[Any, Any]], None]) -> None:
    """Put the dependencies and workers of each task that clients send in order; tell of the graph.

    The order of a set also depends on the order in which it was filled.
    """
    unpack: Any = scheduler._materialize_graph

    @wraps(unpack)
    def unpack_in_order(*args: Any, **keywords: Any) -> Any:
        graph, *others = unpack(*args, **keywords)
        for task in graph.values():
            if len(getattr(task, "_dependencies", ())) > 1:
                task._dependencies = frozenset(sorted(task._dependencies, key=str))
        by_key = others[-1].get("workers", {})
        for key, workers in by_key.items():
            by_key[key] = _ordered(workers)
        sent(graph)
        return graph, *others

    scheduler._materialize_graph = unpack_in_order


def hash_by_names() -> None:
    """Let the order of sets of what has a name depend on that, not on places in memory.

    For one, a span visits its groups until one is not done, which has been 228 and 261 bytecodes in
    runs of the same code.
    """
    hashes: tuple[tuple[Any, Callable[[Any], int]], ...] = (
        # Each worker that retires has a policy of its own.
        (
            ActiveMemoryManagerPolicy,
            lambda policy: hash((type(policy).__qualname__, getattr(policy, "address", ""))),
        ),
        (TaskGroup, lambda group: hash(group.name)),
        (TaskState, lambda task: hash(task.key)),
    )
    for kind, by_name in hashes:
        kind.__hash__ = by_name
