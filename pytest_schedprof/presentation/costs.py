"""Costs of functions and of the scheduler as a whole: which columns and rows are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_schedprof.analysis.owners import NOT_SCHEDULER
from pytest_schedprof.model.metric import INCLUSIVE, METRICS, Metric, readable
from pytest_schedprof.model.result import FunctionCost, MeasuredCosts
from pytest_schedprof.presentation.amounts import Name, name_of


class CostColumn(NamedTuple):
    """A metric in a table of costs."""

    metric: str

    @property
    def row(self) -> Metric:
        """The metric's units."""
        return METRICS[INCLUSIVE.get(self.metric, self.metric)]

    def head(self, per_task: str) -> str:
        """Return the heading; `per_task` is appended unless the metric is a peak."""
        title = "self" if self.metric in INCLUSIVE else self.row.of_steps or self.metric
        return title if self.row.is_peak else f"{title}{per_task}"

    def of_whole(self, per_task: str) -> str:
        """Return the name of the metric of the whole scheduler, with `per_task` likewise."""
        return self.metric if self.row.is_peak else f"{self.metric}{per_task}"

    def text(self, amount: float, tasks: int) -> str:
        """Return an amount of a whole window: per task, unless it is a peak."""
        return readable(amount if self.row.is_peak else amount / tasks, self.row)


class CostRow(NamedTuple):
    """A function and its amounts, one for each column."""

    name: Name
    owner: str
    amounts: tuple[str, ...]


class CostTable(NamedTuple):
    """The most expensive functions."""

    columns: tuple[CostColumn, ...]
    rows: tuple[CostRow, ...]
    left_out: int


class WholeCost(NamedTuple):
    """A cost of the scheduler as a whole."""

    column: CostColumn
    text: str


def dearest(functions: Sequence[FunctionCost], most: int) -> list[FunctionCost]:
    """Return the scheduler's most expensive functions; the record has them in that order."""
    return [each for each in functions if each.owner not in NOT_SCHEDULER][:most]


def cost_table(
    costs: MeasuredCosts, tasks: int, most: int, *, own_seconds: bool = False
) -> CostTable:
    """Return the most expensive functions, with a column for each metric that one of them has.

    Args:
        costs: what a backend measured.
        tasks: processed in its window; without any only peaks are shown.
        most: how many functions to show.
        own_seconds: whether to show the seconds without callees, too.
    """
    shown = dearest(costs.functions, most)
    columns = tuple(_columns(shown, tasks, own_seconds=own_seconds))
    rows = tuple(_row(each, columns, tasks) for each in shown)
    return CostTable(columns, rows, len(costs.functions) - len(shown))


def _columns(
    shown: Sequence[FunctionCost], tasks: int, *, own_seconds: bool
) -> Iterator[CostColumn]:
    measured = {name for each in shown for name in each.total}
    for name in (*METRICS, *(INCLUSIVE if own_seconds else ())):
        column = CostColumn(name)
        if name in measured and (tasks or column.row.is_peak) and not column.row.is_here:
            yield column


def _row(found: FunctionCost, columns: Sequence[CostColumn], tasks: int) -> CostRow:
    amounts = tuple(each.text(found.total.get(each.metric, 0.0), tasks) for each in columns)
    return CostRow(name_of(found.function), found.owner, amounts)


def whole_costs(costs: MeasuredCosts, tasks: int) -> Iterator[WholeCost]:
    """Return what the scheduler as a whole cost.

    CPU time is left out: backends that measure costs slow the scheduler down.
    """
    for name, amount in costs.whole.items():
        if name in METRICS and not METRICS[name].is_sampled and (tasks or METRICS[name].is_peak):
            column = CostColumn(name)
            yield WholeCost(column, column.text(amount, tasks))
