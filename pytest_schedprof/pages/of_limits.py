"""Limits with their verdicts, as a page shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_schedprof.errors import LimitError
from pytest_schedprof.gates.limits import parse_limit
from pytest_schedprof.model.metric import METRICS, PERCENT, readable
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.model.verdict import Finding, LimitResult, Verdict
from pytest_schedprof.pages.amounts import bounds_of, interval_of
from pytest_schedprof.pages.views import LimitRow

MOST = 5
"""Functions that are shown of a limit on many."""

ROOM = 1.15
"""What is drawn beyond the farthest mark, so that it does not stand at the edge."""


def limit_rows(backends: tuple[BackendResult, ...]) -> tuple[LimitRow, ...]:
    """Those of all backends, broken ones first."""
    order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
    found = [(each.backend, limit) for each in backends for limit in each.limits]
    found.sort(key=lambda pair: order.index(pair[1].verdict))
    return tuple(row for name, limit in found for row in _rows(name, limit))


def _rows(backend: str, limit: LimitResult) -> Iterator[LimitRow]:
    if not limit.findings:
        yield LimitRow(limit.limit, limit.verdict.value, "", "", "", limit.note, backend, None)
    case = _Case(backend, limit, _bound(limit.limit))
    for number, finding in enumerate(limit.findings[:MOST]):
        yield case.row(finding, is_first=number == 0)


def _bound(text: str) -> tuple[float, float]:
    """What the limit adds to so many times the baseline."""
    try:
        limit = parse_limit(text)
    except LimitError:  # of a release that knows other limits
        return 0.0, 0.0
    return limit.bound, limit.factor


@dataclass(frozen=True, slots=True)
class _Case:
    backend: str
    limit: LimitResult
    bound: tuple[float, float]

    def row(self, finding: Finding, *, is_first: bool) -> LimitRow:
        metric, estimate = METRICS[self.limit.metric], finding.estimate
        before = finding.before.value if finding.before else None
        edge = self.bound[0] + self.bound[1] * (before or 0.0)
        top = ROOM * max(edge, estimate.high, before or 0.0)
        return LimitRow(
            self.limit.limit if is_first else "",
            finding.verdict.value,
            finding.subject,
            readable(estimate.value, metric),
            bounds_of(estimate, self.limit.metric),
            self._grounds(finding, is_first),
            self.backend,
            interval_of(estimate, top, edge, before),
        )

    def _grounds(self, finding: Finding, is_first: bool) -> str:
        metric = METRICS[self.limit.metric]
        unit = "busy samples" if metric.units is PERCENT else "tasks"
        words = [f"{finding.estimate.samples:,} {unit}"]
        if finding.before:
            words.append(f"before: {readable(finding.before.value, metric)}")
        more = len(self.limit.findings) - MOST
        if is_first and more > 0:
            words.append(f"{more} more functions")
        return "; ".join(words)
