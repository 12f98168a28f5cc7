"""A change in words, for the terminal, a failing test and a pull request alike."""

from __future__ import annotations

from pytest_schedprof.model.comparison import Change, Comparison, Outcome
from pytest_schedprof.model.metric import METRICS, PERCENT, readable


def regressions(comparison: Comparison) -> str:
    """The gravest regression, and how many more there are; empty if there are none."""
    found = comparison.of(Outcome.REGRESSED)
    if not found:
        return ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{sentence(found[0])}{more}"


def undecided(comparison: Comparison) -> str:
    """Why no verdict was possible; empty if one was."""
    open_ones = comparison.of(Outcome.UNDECIDED)
    told = [f"{sentence(each)}: {each.note}" for each in open_ones[:1]]
    more = f", and {len(open_ones) - 1} more" if len(open_ones) > 1 else ""
    return "; ".join([*comparison.reasons, *told]) + more


def sentence(change: Change) -> str:
    """What it was and is: `bytecodes of f: 1,052 before, 1,063 now per task (+1.05 %)`."""
    per_task = "" if METRICS[change.metric].units is PERCENT else " per task"
    subject = change.subject or "the scheduler"
    return (
        f"{change.metric} of {subject}: {amount(change, change.before)} before, "
        f"{amount(change, change.after)} now{per_task} ({difference(change)})"
    )


def amount(change: Change, value: float) -> str:
    """One of its figures."""
    return readable(value, METRICS[change.metric])


def difference(change: Change) -> str:
    """How much it changed: shares in percentage points, all else relative to what it was."""
    if METRICS[change.metric].units is PERCENT:
        return f"{change.difference * 100:+.1f} pp"
    return "new" if change.relative is None else f"{change.relative:+.2%}"


def interval(change: Change) -> str:
    """Bounds of the difference; of what is exact there are none."""
    if change.low == change.high:
        return ""
    if METRICS[change.metric].units is PERCENT:
        return f"{change.low * 100:+.1f} to {change.high * 100:+.1f} pp"
    if not change.before:
        return ""
    return f"{change.low / change.before:+.1%} to {change.high / change.before:+.1%}"
