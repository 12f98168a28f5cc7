"""The way of a computation, phase by phase, as CPU time per task."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pytest_schedprof.analysis.costs import Costs, Unit
from pytest_schedprof.model.evidence import Phase, Phases
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import BackendResult, SampledShares, Segment, Window
from pytest_schedprof.model.verdict import Estimate

CLIENT = ("construction", "optimisation", "serialisation", "sending")
"""Phases of the client, in the order of a computation's way."""

CLIENT_OWNERS = tuple(f"client-{phase}" for phase in CLIENT)
"""By which limits speak of them."""

SCHEDULER: Mapping[str, tuple[str, ...]] = {
    "intake": ("graph-intake",),
    "transitions": ("transitions", "worker-choice", "stealing"),
    "messages": ("comm", "serialisation"),
}
"""Those of the scheduler, by their owners. A limit speaks of owners: `cpu(@graph-intake)`."""

REST = "rest"
"""What else the scheduler does: its event loop, heartbeats, the garbage collector, ..."""


def phases_of(found: Sequence[BackendResult]) -> Phases | None:
    """Of the first backend that sampled, or else that recorded at all; None without a task."""
    worked = [each for each in found if each.window.tasks]
    best = next((each for each in worked if each.shares), worked[0] if worked else None)
    if best is None:
        return None
    client = _client(best.window)
    scheduler = _scheduler(best.shares, best.window) if best.shares else ()
    phases = (*client, *scheduler)
    return Phases(best.window.tasks, phases, best.backend if best.shares else "")


def _client(window: Window) -> Iterator[Phase]:
    for name in CLIENT:
        spent = [each.client[name] for each in window.segments if name in each.client]
        if spent:
            yield Phase("client", name, sum(spent) / window.tasks)


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


class ClientCosts:
    """Grounds of limits on the client's phases: its CPU time in the windows of one backend."""

    def __init__(self, rounds: Sequence[Sequence[Segment]]) -> None:
        self._rounds = rounds

    def seen(self, metric: str) -> Collection[Function]:
        """Functions are not told apart."""
        return ()

    def of(self, metric: str, subject: str) -> Estimate:
        """Of one phase, as `@client-sending`."""
        return self._costs(subject).of(metric, "")

    def growth(self, metric: str, subject: str) -> Estimate:
        """By the amounts at each scale."""
        return self._costs(subject).growth(metric, "")

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        """Without two scales nothing can be said."""
        return self._costs(subject).doubt_of_growth(metric, "")

    def doubt(self, metric: str, subject: str) -> str:
        """Not every system has a clock for each thread, nor every test a client of ours."""
        phase = _phase(subject)
        if all(phase in segment.client for each in self._rounds for segment in each):
            return self._costs(subject).doubt(metric, "")
        return (
            f"the client's {phase} was not timed: it needs schedprof_scheduler, and a system that "
            "has clocks for threads"
        )

    def _costs(self, subject: str) -> Costs:
        return Costs([_unit(each, _phase(subject)) for each in self._rounds])


def _phase(subject: str) -> str:
    return subject.removeprefix("@client-")


def _unit(segments: Sequence[Segment], phase: str) -> Unit:
    spent = sum(segment.client.get(phase, 0.0) for segment in segments)
    tasks = sum(segment.tasks for segment in segments)
    return Unit(tasks, {}, {"cpu": spent}, scale=segments[0].scale)
