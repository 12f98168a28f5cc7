"""CPU time per task of the phases of a computation, from the client to its results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from pytest_schedprof.judge.costs import Costs, Unit
from pytest_schedprof.model.evidence import Evidence, Phase, Phases, RunAmounts
from pytest_schedprof.model.limit import CLIENT_PREFIX, Estimate
from pytest_schedprof.model.metric import (
    CLIENT,
    CPU,
    OF_CLIENT,
    RECEIVING,
    REST,
    SCHEDULER,
    WORKERS,
)
from pytest_schedprof.model.profile import Function, compile_pattern
from pytest_schedprof.model.result import BackendResult, SampledShares, Segment, Window

CLIENT_OWNERS = tuple(f"{CLIENT_PREFIX}{phase}" for phase in OF_CLIENT)
"""Names of the client's phases in limits."""


def phases_of(results: Sequence[BackendResult]) -> Phases | None:
    """Return the phases as the first sampling backend saw them, else the first backend.

    None if no backend saw a task.
    """
    worked = [result for result in results if result.window.tasks]
    best = next((result for result in worked if result.shares), worked[0] if worked else None)
    if best is None:
        return None
    window = best.window
    sent = _timed("client", CLIENT, window)
    scheduler = _scheduler(best.shares, window) if best.shares else ()
    worked_on = _timed("workers", WORKERS, window)
    phases = (*sent, *scheduler, *worked_on, *_timed("client", (RECEIVING,), window))
    if best.shares is None:
        return Phases(window.tasks, phases, "")
    return Phases(window.tasks, phases, best.backend, best.shares.busy_samples)


def _timed(process: str, names: Sequence[str], window: Window) -> Iterator[Phase]:
    """Yield phases whose CPU time was read from clocks, if this was done in every segment."""
    clocks = [
        segment.client if process == "client" else segment.workers for segment in window.segments
    ]
    for name in names:
        if all(name in times for times in clocks):
            yield Phase(process, name, sum(times[name] for times in clocks) / window.tasks)


def _scheduler(shares: SampledShares, window: Window) -> Iterator[Phase]:
    held = {row.owner: row.share.value for row in shares.owners}
    cpu = window.cpu_seconds / window.tasks
    left = cpu * shares.busy_part if shares.is_shared else cpu
    for name, owners in SCHEDULER.items():
        share = sum(held.get(owner, 0.0) for owner in owners)
        cost = cpu * share * shares.busy_part
        left -= cost
        yield Phase("scheduler", name, cost)
    yield Phase("scheduler", REST, max(0.0, left))


def bar_of(phases: Phases) -> list[tuple[str, float]]:
    return [(f"{phase.where}: {phase.name}", phase.cpu_seconds_per_task) for phase in phases.phases]


class CostsOfSubjects:
    """Measurements of which each subject has units of its own, with one cost in each."""

    def costs(self, metric: str, subject: str) -> Costs:
        raise NotImplementedError

    def of(self, metric: str, subject: str) -> Estimate:
        return self.costs(metric, subject).of(metric, "")

    def growth(self, metric: str, subject: str) -> Estimate:
        return self.costs(metric, subject).growth(metric, "")

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        return self.costs(metric, subject).doubt_of_growth(metric, "")


class ClientCosts(CostsOfSubjects, Struct, frozen=True):
    """The client's phases, as `@client-sending`: CPU time in the windows of one backend."""

    rounds: Sequence[Sequence[Segment]]

    def seen(self, metric: str) -> Collection[Function]:
        return ()  # phases are not split by function

    def doubt(self, metric: str, subject: str) -> str:
        # The system may have no clocks of threads, or the test no client of ours.
        phase = _phase(subject)
        if all(phase in segment.client for one_round in self.rounds for segment in one_round):
            return self.costs(metric, subject).doubt(metric, "")
        return (
            f"the client's {phase} was not timed: it needs schedprof_scheduler, and a system that "
            "has clocks for threads"
        )

    def costs(self, metric: str, subject: str) -> Costs:
        return Costs([_unit(one_round, _phase(subject)) for one_round in self.rounds])


def _phase(subject: str) -> str:
    return subject.removeprefix(f"@{CLIENT_PREFIX}")


def _unit(segments: Sequence[Segment], phase: str) -> Unit:
    spent = sum(segment.client.get(phase, 0.0) for segment in segments)
    tasks = sum(segment.tasks for segment in segments)
    return Unit(tasks, {}, {CPU: spent}, scale=segments[0].scale)


class EvidenceMeasurements(CostsOfSubjects, Struct, frozen=True):
    """Measurements of one kind of evidence, for its limits.

    A run of the body counts as one: its amount is already of the whole run, or a mean.
    """

    evidence: Evidence

    def seen(self, metric: str) -> Collection[str]:
        return [amounts.subject for amounts in self._of(metric) if amounts.subject]

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the mean over runs, of those at the largest scale."""
        units = self.costs(metric, subject).units
        largest = max((unit.scale for unit in units), default=0)
        return Costs([unit for unit in units if unit.scale == largest]).of(metric, "")

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        if any(not amounts.scales for amounts in self._of(metric)):
            return f"growth needs a test that runs at two scales or more, and a {metric} of each"
        matches = compile_pattern(subject).fullmatch
        named = [amounts.subject for amounts in self._of(metric) if matches(amounts.subject)]
        doubts = (super(EvidenceMeasurements, self).doubt_of_growth(metric, name) for name in named)
        return next(filter(None, doubts), "")

    def doubt(self, metric: str, subject: str) -> str:
        if self.evidence.missing:
            return f"no evidence {self.evidence.kind!r}: {self.evidence.missing}"
        matches = compile_pattern(subject).fullmatch
        if any(matches(amounts.subject) for amounts in self._of(metric)):
            return ""
        return "; ".join(self.evidence.notes) or f"evidence {self.evidence.kind!r} has no figure"

    def costs(self, metric: str, subject: str) -> Costs:
        return Costs(
            [
                Unit(1, {}, {metric: amount}, scale=runs.scales[number] if runs.scales else 0)
                for runs in self._of(metric)
                if runs.subject == subject
                for number, amount in enumerate(runs.amounts)
            ]
        )

    def _of(self, metric: str) -> list[RunAmounts]:
        of_metric = (amounts for amounts in self.evidence.amounts if amounts.metric == metric)
        return [amounts for amounts in of_metric if amounts.amounts]  # nothing is no 0
