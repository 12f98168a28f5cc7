"""The phases that a computation passes: in client, scheduler and workers, and the client again."""

from __future__ import annotations

from collections.abc import Mapping

CLIENT = ("construction", "optimisation", "serialisation", "sending")
"""Phases of the client up to the scheduler, in the order in which a computation passes them."""

RECEIVING = "receiving"
"""Phase of the client in which it unpacks what it receives."""

OF_CLIENT = (*CLIENT, RECEIVING)

SCHEDULER: Mapping[str, tuple[str, ...]] = {
    "intake": ("graph-intake",),
    "transitions": ("transitions", "worker-choice", "stealing"),
    "messages": ("comm", "serialisation"),
}
"""Phases of the scheduler and their owners. Limits name owners too: `cpu(@graph-intake)`."""

REST = "rest"
"""Phase of everything else in the scheduler: event loop, heartbeats, garbage collector, ..."""

EXECUTION, OVERHEAD = "execution", "overhead"
"""Phases of the workers: the code of tasks, and all else that their processes do."""

WORKERS = (EXECUTION, OVERHEAD)

PHASES = (*CLIENT, *SCHEDULER, REST, *WORKERS, RECEIVING)
"""All phases, in order."""
