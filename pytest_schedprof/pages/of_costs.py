"""Costs per task, as a page shows them."""

from __future__ import annotations

from pytest_schedprof.model.metric import METRICS, Metric, readable
from pytest_schedprof.model.result import BackendResult, FunctionCost, MeasuredCosts
from pytest_schedprof.pages.amounts import name_of
from pytest_schedprof.pages.views import CostTable, Fact
from pytest_schedprof.reports.terminal import dearest

MOST = 25

OWN = "self_seconds"
"""Seconds without callees: by these functions are in order, but no limit bounds them."""


def cost_table(backend: BackendResult) -> CostTable | None:
    """The dearest functions; none of a backend that samples."""
    costs, tasks = backend.costs, backend.window.tasks
    if costs is None:
        return None
    shown = dearest(costs.functions, MOST)
    metrics = [
        name
        for name in (*METRICS, OWN)
        if any(name in each.total for each in shown) and (tasks or _row(name).is_peak)
    ]
    rows = tuple(
        (name_of(each.function), each.owner, _amounts(each, metrics, tasks)) for each in shown
    )
    return CostTable(tuple(map(_head, metrics)), rows, len(costs.functions) - len(shown))


def _row(metric: str) -> Metric:
    return METRICS["seconds" if metric == OWN else metric]


def _amounts(found: FunctionCost, metrics: list[str], tasks: int) -> tuple[str, ...]:
    return tuple(_amount(name, found.total.get(name, 0.0), tasks) for name in metrics)


def _amount(metric: str, amount: float, tasks: int) -> str:
    row = _row(metric)
    return readable(amount if row.is_peak else amount / tasks, row)


def _head(metric: str) -> str:
    if metric == OWN:
        return "self / task"
    return metric if METRICS[metric].is_peak else f"{metric} / task"


def whole_facts(costs: MeasuredCosts | None, tasks: int) -> tuple[Fact, ...]:
    """What the scheduler as a whole cost. CPU time is not among it: these backends disturb."""
    if costs is None:
        return ()
    return tuple(
        Fact(_head(name), _amount(name, amount, tasks))
        for name, amount in costs.whole.items()
        if name in METRICS and name != "cpu" and (tasks or METRICS[name].is_peak)
    )
