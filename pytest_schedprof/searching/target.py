"""The figure that a search follows, and what its value makes of a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.profile import Function, compile_pattern
from pytest_schedprof.searching.search import Answer


@dataclass(frozen=True, slots=True)
class Target:
    """One figure that regressed between the two ends."""

    test_id: str
    backend: str
    change: Change

    @property
    def middle(self) -> float:
        """The value halfway between both ends, from which on a version is bad."""
        return (self.change.before + self.change.after) / 2

    def value(self, report: Report) -> float | None:
        """Return the figure of a version that is compared with the good end; None without one."""
        compared = self._compared(report)
        if compared is None or (compared.reasons and not compared.changes):
            return None
        found = self._of(compared)
        return found.after if found else self.change.before  # what did not change is not listed

    def answer(self, report: Report) -> Answer:
        """Tell whether a version is bad, from its comparison with the good end."""
        value, compared = self.value(report), self._compared(report)
        if value is None or compared is None:
            return Answer.SKIP
        found = self._of(compared)
        if found and found.outcome is Outcome.UNDECIDED:
            return Answer.SKIP
        is_past = (value - self.middle) * (self.change.after - self.change.before) >= 0
        return Answer.BAD if is_past else Answer.GOOD

    def part(self, before: float, after: float) -> float:
        """Return which part of the change between both ends a step is."""
        return (after - before) / self.change.difference

    def _compared(self, report: Report) -> Comparison | None:
        mine = (self.test_id, self.backend)
        found = (each for each in report.comparisons if (each.test_id, each.backend) == mine)
        return next(found, None)

    def _of(self, compared: Comparison) -> Change | None:
        mine = (self.change.metric, self.change.subject)
        return next(
            (each for each in compared.changes if (each.metric, each.subject) == mine), None
        )


def target_of(report: Report, metric: str = "", function: str = "") -> Target | None:
    """Return the figure to follow: of the scheduler as a whole, or else what rose most.

    Args:
        report: the comparison of both ends.
        metric: the only metric that counts.
        function: a pattern; only functions that it matches count. Empty for all and the whole.
    """
    found = [
        Target(each.test_id, each.backend, change)
        for each in report.comparisons
        for change in each.of(Outcome.REGRESSED)
        if _is_meant(change, metric, function)
    ]
    return min(found, key=_order, default=None)


def _is_meant(change: Change, metric: str, function: str) -> bool:
    if metric and change.metric != metric:
        return False
    return not function or bool(compile_pattern(function).fullmatch(change.subject))


def _order(target: Target) -> tuple[int, float, str]:
    """Sort key. Of the whole the largest part counts; of functions the largest amount, since
    small functions double easily."""
    change = target.change
    if not change.subject and change.relative is not None:
        return 0, -change.relative, ""
    return _rank(change.metric), -change.difference, change.subject


def _rank(metric: str) -> int:
    """Return the place of a metric among those of functions, from 1 on."""
    return METRICS[metric].rank or len(METRICS)


def moved_functions(report: Report, target: Target) -> Mapping[Function, float]:
    """Return the functions whose figures changed between the ends, with how much they did."""
    changes = [
        change
        for each in report.comparisons
        if (each.test_id, each.backend) == (target.test_id, target.backend)
        for change in each.changes
    ]
    of_functions = [each for each in changes if ":" in each.subject]
    metrics = sorted({each.metric for each in of_functions}, key=_rank)
    own = METRICS[target.change.metric].weighed_by or target.change.metric
    metric = own if own in metrics else next(iter(metrics), own)
    return _amounts(each for each in of_functions if each.metric == metric)


def _amounts(changes: Iterable[Change]) -> Mapping[Function, float]:
    found = {each.subject: abs(each.difference) for each in changes}
    return dict(sorted(found.items(), key=lambda each: -each[1]))
