"""Which measurements may be held against each other, and why others may not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.shares import MIN_SAMPLES
from pytest_schedprof.comparison.figures import Figures
from pytest_schedprof.model.calibration import Calibration
from pytest_schedprof.model.place import Environment
from pytest_schedprof.model.result import BackendResult, Result

SAME_WORK = 0.01
"""Costs are per task: of a workload of another size they are other costs."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one backend measured of one test, with what it was measured on."""

    result: Result
    of: BackendResult

    @property
    def scales(self) -> tuple[int, ...]:
        """Sizes at which the test ran."""
        return self.of.window.scales

    @property
    def python(self) -> str:
        """Minor version of the scheduler's Python."""
        return self.result.environment.minor_python if self.result.environment else ""

    @property
    def kind(self) -> str:
        """Of the cluster."""
        return self.result.cluster.kind if self.result.cluster else ""

    @property
    def machine(self) -> str:
        """The scheduler's processors."""
        return self.result.environment.scheduler_machine if self.result.environment else ""

    def figures(self, calibrations: Sequence[Calibration] = ()) -> Figures:
        """What is compared of it, by what is known of its machine."""
        place = (self.machine, self.python, self.kind)
        noise = tuple(
            each
            for calibration in calibrations
            if calibration.place == place
            for each in calibration.backends
            if (each.backend, each.mode) == (self.of.backend, self.of.mode)
        )
        return Figures(self.of, noise)

    @property
    def size(self) -> str:
        """Of the cluster."""
        cluster = self.result.cluster
        return (
            f"{cluster.kind}, {cluster.workers} workers, {cluster.threads} threads"
            if (cluster)
            else ""
        )


def measurements(results: Sequence[Result]) -> dict[tuple[str, str], list[Measurement]]:
    """By test ID and backend, the newest first; of what is not usable nothing."""
    found: dict[tuple[str, str], list[Measurement]] = {}
    for result in sorted(results, key=lambda each: each.started_at, reverse=True):
        for of in result.backends if result.is_usable else ():
            found.setdefault((result.test_id, of.backend), []).append(Measurement(result, of))
    return found


def obstacle(before: Measurement, after: Measurement) -> str:
    """Why the two cannot be compared at all; empty if they can."""
    return next((reason for reason in _obstacles(before, after) if reason), "")


def _obstacles(before: Measurement, after: Measurement) -> Iterator[str]:
    yield _differing("mode", before.of.mode, after.of.mode)
    yield _differing("Python", before.python, after.python)
    yield _differing("scale", _words(before.scales), _words(after.scales))
    yield _differing("cluster", before.size, after.size)
    yield from _configurations(before.result.environment, after.result.environment)
    yield doubt_of_sides(before, after)


def doubt_of_sides(before: Measurement, after: Measurement) -> str:
    """Why costs of the two say nothing of each other; empty if they do."""
    for name, side in (("baseline", before), ("run", after)):
        if side.of.doubt:
            return f"the {name} cannot be judged: {side.of.doubt}"
        if not side.of.window.tasks:
            return f"the {name} processed no task"
    return _other_work(before.of, after.of)


def _differing(what: str, before: str, after: str) -> str:
    if before == after:
        return ""
    return f"another {what}: the baseline has {before or 'none'}, this run {after or 'none'}"


def _words(scales: tuple[int, ...]) -> str:
    return ",".join(map(str, scales))


def _configurations(before: Environment | None, after: Environment | None) -> Iterator[str]:
    """Of options that both releases know."""
    one, other = (side.configuration if side else {} for side in (before, after))
    for name in sorted(one.keys() & other.keys()):
        yield _differing(f"distributed.scheduler.{name}", one[name], other[name])


def _other_work(before: BackendResult, after: BackendResult) -> str:
    """Tasks per round."""
    tasks = [side.window.tasks / max(1, side.window.rounds) for side in (before, after)]
    if abs(tasks[1] - tasks[0]) <= SAME_WORK * max(tasks):
        return ""
    return (
        f"another amount of work: {tasks[0]:.0f} tasks a round in the baseline, {tasks[1]:.0f} in "
        "this run, and costs are per task"
    )


def obstacle_to_time(before: Measurement, after: Measurement) -> str:
    """Why CPU time and shares of the two cannot be compared; empty if they can."""
    return another_machine(before, after) or too_few_samples(before, after)


def too_few_samples(before: Measurement, after: Measurement) -> str:
    """For anything to be said of shares."""
    samples = [side.of.shares.busy_samples if side.of.shares else 0 for side in (before, after)]
    if min(samples) < MIN_SAMPLES:
        return f"{min(samples)} busy samples, at least {MIN_SAMPLES} are needed"
    return ""


def obstacle_in_turns(before: Measurement, after: Measurement) -> str:
    """Why two sides of one session cannot be compared; they may be of two Pythons."""
    return doubt_of_sides(before, after) or _too_few_pairs(before, after, MIN_ROUNDS)


def obstacle_to_counts(before: Measurement, after: Measurement) -> str:
    """Why exact figures of the two cannot be compared; empty if they can."""
    if before.python == after.python:
        return ""
    return f"bytecodes of Python {before.python} and {after.python} are not the same"


def _too_few_pairs(before: Measurement, after: Measurement, needed: int) -> str:
    """Of rounds in turns: what scatters, and by how much, one pair does not show."""
    pairs = min(side.of.window.rounds // max(1, len(side.scales)) for side in (before, after))
    if pairs < needed:
        return (
            f"{pairs} {'pair' if pairs == 1 else 'pairs'} of rounds, at least {needed} are needed "
            "to see what scatters: give a larger budget, or the test less work"
        )
    return ""


def another_machine(before: Measurement, after: Measurement) -> str:
    """Whether times are those of other processors, of which nobody knows how fast they are."""
    machines = [before.machine, after.machine]
    if machines[0] == machines[1] and all(machines):
        return ""
    return (
        f"times are of another machine: {machines[0] or 'unknown'} and {machines[1] or 'unknown'}; "
        "exact metrics (counts) compare across machines"
    )


def identities(results: Sequence[Result]) -> set[object]:
    """What tells measurements apart; of two that are alike in it the later one counts."""
    return {
        (
            *key,
            each.of.mode,
            each.python,
            each.scales,
            each.size,
            tuple(sorted(environment.configuration.items())),
            environment.scheduler_machine,
        )
        for key, found in measurements(results).items()
        for each in found
        if (environment := each.result.environment)
    }
