"""What of a backend's figures belongs to which spans of the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytest_schedprof.analysis.shares import Shares
from pytest_schedprof.model.profile import CostProfile, SampleProfile, SpanName
from pytest_schedprof.model.result import SpanCost


def counted_by_span(profiles: Iterable[CostProfile]) -> tuple[SpanCost, ...]:
    """Add up what was counted for the spans of each name, the most expensive first."""
    tasks: Counter[SpanName] = Counter()
    sums: dict[SpanName, dict[str, float]] = {}
    for profile in profiles:
        for span in profile.spans:
            tasks[span.name] += span.tasks
            into = sums.setdefault(span.name, {})
            for metric, amount in span.counts.items():
                into[metric] = into.get(metric, 0) + amount
    costs = (SpanCost(name, tasks[name], total) for name, total in sums.items())
    return tuple(sorted(costs, key=lambda cost: (-max(cost.total.values(), default=0), cost.name)))


def sampled_by_span(shares: Shares, profiles: Iterable[SampleProfile]) -> tuple[SpanCost, ...]:
    """Return the share of the spans of each name, the largest first."""
    tasks: Counter[SpanName] = Counter()
    for profile in profiles:
        tasks.update(dict(profile.span_tasks))
    names = {*tasks, *shares.total.spans}
    ordered = sorted(names, key=lambda name: (-shares.total.spans[name], name))
    return tuple(SpanCost(name, tasks[name], share=shares.of_span(name)) for name in ordered)
