"""The phases that a computation passes, in the client and in the scheduler."""

from __future__ import annotations

from collections.abc import Mapping

CLIENT = ("construction", "optimisation", "serialisation", "sending")
"""Phases of the client, in the order in which a computation passes them."""

SCHEDULER: Mapping[str, tuple[str, ...]] = {
    "intake": ("graph-intake",),
    "transitions": ("transitions", "worker-choice", "stealing"),
    "messages": ("comm", "serialisation"),
}
"""Phases of the scheduler and their owners. Limits name owners too: `cpu(@graph-intake)`."""

REST = "rest"
"""Phase of everything else in the scheduler: event loop, heartbeats, garbage collector, ..."""

PHASES = (*CLIENT, *SCHEDULER, REST)
"""All phases, in order."""
