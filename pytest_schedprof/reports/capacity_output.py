"""Output of `schedprof capacity` as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pytest_schedprof.model.capacity import Capacity, Carried
from pytest_schedprof.presentation.capacity import (
    HEADS,
    facts_of,
    rows_of,
    sentences,
    title_of,
)

FOOT = "Sizes without a measured cost are forecasts. Bounds are those of a measurement there."


def as_json(capacity: Capacity) -> str:
    """Return all figures; what is never reached is null."""
    return msgspec.json.format(msgspec.json.encode(capacity), indent=2).decode()


def as_text(capacity: Capacity) -> str:
    """Return a table for each side, and what follows."""
    return "\n".join(_lines(capacity))


def _lines(capacity: Capacity) -> Iterator[str]:
    yield ", ".join(f"{fact.label}: {fact.text}" for fact in facts_of(capacity))
    for side in capacity.sides:
        yield ""
        yield title_of(side)
        yield from _table(side)
    yield FOOT
    yield ""
    yield from sentences(capacity)


def _table(side: Carried) -> Iterator[str]:
    rows = [HEADS, *rows_of(side)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
