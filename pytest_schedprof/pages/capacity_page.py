"""The page of `schedprof capacity`."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.model.capacity import Capacity
from pytest_schedprof.pages.capacity_picture import Picture, pictures_of
from pytest_schedprof.presentation.amounts import Fact
from pytest_schedprof.presentation.capacity import (
    HEADS,
    SizeRow,
    facts_of,
    rows_of,
    sentences,
    title_of,
)


@dataclass(frozen=True, slots=True)
class SideTable:
    """The sizes of one side."""

    title: str
    rows: tuple[SizeRow, ...]


@dataclass(frozen=True, slots=True)
class CapacityPage:
    """What the page shows."""

    workload: str
    facts: tuple[Fact, ...]
    sentences: tuple[str, ...]
    pictures: tuple[Picture, ...]
    heads: tuple[str, ...]
    sides: tuple[SideTable, ...]


def page_of_capacity(capacity: Capacity) -> CapacityPage:
    """Gather what the page shows."""
    return CapacityPage(
        capacity.workload,
        tuple(facts_of(capacity)),
        tuple(sentences(capacity)),
        pictures_of(capacity),
        HEADS,
        tuple(SideTable(title_of(each), tuple(rows_of(each))) for each in capacity.sides),
    )
