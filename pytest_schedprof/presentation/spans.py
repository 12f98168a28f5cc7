"""Cost per span: which spans of a test are shown, and as what text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_schedprof.model.metric import METRICS, SHARE, readable
from pytest_schedprof.model.profile import SpanName
from pytest_schedprof.model.result import BackendResult, SpanCost
from pytest_schedprof.presentation.amounts import bounds_of, micros, percent
from pytest_schedprof.presentation.functions import micros_per_sample

DEFAULT: SpanName = ("default",)
NOBODY: SpanName = ()

OUTSIDE = "outside of spans"
FOR_NONE = "for no span: the event loop, messages, what the clock calls"


class SpanRow(NamedTuple):
    """The spans of one name, and what of the scheduler's cost belongs to them."""

    name: str
    tasks: int
    part: str
    bounds: str
    amounts: tuple[str, ...]
    """Costs per task of these spans, one for each column; empty texts without tasks."""


class SpanTable(NamedTuple):
    """Costs of all spans of a test, by one backend."""

    of: str
    """What the parts are parts of."""
    columns: tuple[str, ...]
    rows: tuple[SpanRow, ...]


def span_table(backend: BackendResult, test_id: str) -> SpanTable | None:
    """Return the costs of the spans that a test opened; None if it opened none."""
    spans = sorted(backend.spans, key=lambda each: each.name == NOBODY)
    if all(each.name in (NOBODY, DEFAULT, (test_id,)) for each in spans):
        return None
    return _sampled(backend, spans, test_id) if backend.shares else _counted(spans, test_id)


def _sampled(backend: BackendResult, spans: Sequence[SpanCost], test_id: str) -> SpanTable:
    assert backend.shares
    busy = micros_per_sample(backend) * backend.shares.busy_samples * backend.window.tasks
    rows = []
    for each in spans:
        assert each.share
        cost = micros(each.share.value * busy / each.tasks) if each.tasks else ""
        part, bounds = percent(each.share.value), bounds_of(each.share, SHARE)
        rows.append(SpanRow(_label(each.name, test_id), each.tasks, part, bounds, (cost,)))
    return SpanTable("busy samples", ("CPU",), tuple(rows))


def _counted(spans: Sequence[SpanCost], test_id: str) -> SpanTable:
    columns = [name for name in METRICS if any(name in each.total for each in spans)]
    main = min(columns, key=lambda name: METRICS[name].rank)
    whole = sum(each.total.get(main, 0) for each in spans)
    rows = tuple(
        SpanRow(
            _label(each.name, test_id),
            each.tasks,
            percent(each.total.get(main, 0) / whole if whole else 0),
            "",
            tuple(_per_task(each, columns)),
        )
        for each in spans
    )
    return SpanTable(main, tuple(columns), rows)


def _per_task(span: SpanCost, columns: Sequence[str]) -> Iterator[str]:
    for name in columns:
        amount = span.total.get(name, 0)
        yield readable(amount / span.tasks, METRICS[name]) if span.tasks else ""


def _label(name: SpanName, test_id: str) -> str:
    """Write the tags that the test gave; evidence opens a span of the test around them."""
    if name == NOBODY:
        return FOR_NONE
    own = name[1:] if name[0] == test_id else name
    return OUTSIDE if own in ((), DEFAULT) else " > ".join(own)
