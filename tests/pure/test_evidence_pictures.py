"""Tests of what evidence shows: amounts over time, bandwidth between workers, tasks as text."""

from __future__ import annotations

from functools import partial
from operator import add
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_schedprof.evidence.local import described
from pytest_schedprof.evidence.transfers import MOST, Moved, draw_pairs
from pytest_schedprof.evidence.workers import HEIGHT, OTHERS, WIDTH, Column, draw_stacked
from pytest_schedprof.formats.charts import COLOURS

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*columns: Column) -> ElementTree.Element:
    return ElementTree.fromstring(draw_stacked(columns, "<title> & more", "samples"))


def texts(picture: ElementTree.Element) -> list[str]:
    return [str(text.text) for text in picture.iter(f"{SVG}text")]


def boxes(picture: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """Width and height of the boxes of each column."""
    return [
        [
            (float(box.attrib["width"]), float(box.attrib["height"]))
            for box in group.iter(f"{SVG}rect")
        ]
        for group in picture.iter(f"{SVG}g")
    ]


def test_columns_are_as_wide_as_their_time_and_as_tall_as_their_amounts() -> None:
    picture = drawn(Column(0, 1, {"burn": 10, "join": 30}), Column(1, 4, {"burn": 20}))
    (first, other) = boxes(picture)
    assert [tall for _, tall in first] == pytest.approx([HEIGHT / 4, HEIGHT * 3 / 4])
    assert [tall for _, tall in other] == pytest.approx([HEIGHT / 2])
    assert (first[0][0], other[0][0]) == pytest.approx((WIDTH / 4 - 1, WIDTH * 3 / 4 - 1))
    assert "1  burn: 70 samples" in texts(picture)
    assert "2  join: 30 samples" in texts(picture)
    assert "<title> & more" in texts(picture)


def test_kinds_without_a_colour_are_drawn_together() -> None:
    amounts = {f"kind-{number}": 100.0 - number for number in range(len(COLOURS) + 5)}
    picture = drawn(Column(0, 1, amounts))
    legend = [text for text in texts(picture) if text.endswith(" samples")]
    assert len(legend) == len(COLOURS)
    assert legend[-1].startswith(f"{len(COLOURS)}  {OTHERS}: ")
    assert sum(tall for _, tall in boxes(picture)[0]) == pytest.approx(HEIGHT, abs=1)


def test_a_name_may_be_anything() -> None:
    picture = drawn(Column(0, 1, {"<a>\x00&": 1.0}))
    assert "1  <a>\ufffd&: 1 samples" in texts(picture)


def titles(picture: bytes) -> list[str]:
    return [str(title.text) for title in ElementTree.fromstring(picture).iter(f"{SVG}title")]


def test_a_pair_has_its_bandwidth_and_the_faster_one_is_darker() -> None:
    pairs = {("a", "<b>"): Moved(4_000_000, 2.0, 3), ("<b>", "a"): Moved(80_000_000, 1.0, 1)}
    picture = draw_pairs(pairs)
    assert titles(picture) == [
        "<b> to a: 80 MB/s, 80000000 bytes in 1 transfers",
        "a to <b>: 2 MB/s, 4000000 bytes in 3 transfers",
    ]
    fast, slow = (
        str(bar.get("fill"))
        for bar in ElementTree.fromstring(picture).iter(f"{SVG}rect")
        if bar.get("fill") != "white"
    )
    assert fast < slow


def test_of_many_workers_those_are_drawn_that_moved_most() -> None:
    pairs = {(f"w{n:03}", "hub"): Moved(1000 + n, 1.0, 1) for n in range(2 * MOST)}
    shown = titles(draw_pairs(pairs))
    assert len(shown) == MOST - 1
    assert shown[-1].startswith(f"w{2 * MOST - 1:03} to hub")


class Held:
    """An argument whose representation would be large."""

    def __repr__(self) -> str:
        raise AssertionError("it is not asked")


class Task:
    """What dask calls a task: a function with arguments."""

    def __init__(self, function: Any, *args: Any, **keywords: Any) -> None:
        self.func, self.args, self.kwargs = function, args, keywords


class TaskRef:
    """What stands for another task."""

    def __init__(self, key: object) -> None:
        self.key = key


class List:
    """What dask makes of a list that holds such."""

    def __init__(self, *args: object) -> None:
        self.args = args


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ((add, 1, "x"), "add(1, 'x')"),
        (Task(add, TaskRef("y-1"), 2.5, axis=None), "add('y-1', 2.5, axis=None)"),
        (Task(sum, [1, TaskRef(("y", 0))]), "sum([1, ('y', 0)])"),
        (Task(sum, List((1, 2), TaskRef("y"))), "sum([(1, 2), 'y'])"),
        (Task(sum, list(range(99))), "sum([0, 1, 2, 3, 4, 5, ...])"),
        (Task(partial(add, 1), Held()), "add(Held)"),
        (Task(map, add, dict), "map(add, dict)"),
        (b"x" * 10**6, "bytes"),
        (Held(), "Held"),
    ],
)
def test_a_task_is_a_call(task: object, text: str) -> None:
    assert described(task) == text


def test_long_texts_are_cut() -> None:
    assert len(described((add, "x" * 10**6, 10**300))) < 100
