"""The way of a computation, phase by phase, as CPU time per task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_schedprof.model.evidence import Phase, Phases
from pytest_schedprof.model.result import BackendResult, SampledShares, Window

CLIENT = ("construction", "optimisation", "serialisation", "sending")
"""Phases of the client, in the order of a computation's way."""

SCHEDULER: Mapping[str, tuple[str, ...]] = {
    "intake": ("graph-intake",),
    "transitions": ("transitions", "worker-choice", "stealing"),
    "messages": ("comm", "serialisation"),
}
"""Those of the scheduler, by their owners. A limit speaks of owners: `cpu(@graph-intake)`."""

REST = "rest"
"""What else the scheduler does: its event loop, heartbeats, the garbage collector, ..."""


def phases_of(client: Mapping[str, float], tasks: int, found: Sequence[BackendResult]) -> Phases:
    """Of the client's seconds, and of what backends sampled of the scheduler, if one did."""
    phases = [Phase("client", name, client[name] / tasks) for name in CLIENT if name in client]
    sampled = next((each for each in found if each.shares and each.window.tasks), None)
    if sampled is None or sampled.shares is None:
        return Phases(tasks, tuple(phases), "")
    return Phases(tasks, (*phases, *_scheduler(sampled.shares, sampled.window)), sampled.backend)


def _scheduler(shares: SampledShares, window: Window) -> Iterator[Phase]:
    held = {each.owner: each.share.value for each in shares.owners}
    samples = shares.busy_samples + shares.idle_samples + shares.empty_samples
    cpu = window.cpu_seconds / window.tasks
    left = cpu
    for name, owners in SCHEDULER.items():
        share = sum(held.get(owner, 0.0) for owner in owners)
        cost = cpu * share * shares.busy_samples / max(1, samples)
        left -= cost
        yield Phase("scheduler", name, cost)
    yield Phase("scheduler", REST, max(0.0, left))


def bar_of(phases: Phases) -> list[tuple[str, float]]:
    """Labels and amounts."""
    return [(f"{each.where}: {each.name}", each.cpu_seconds_per_task) for each in phases.phases]
