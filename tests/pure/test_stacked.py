"""Tests of pictures of amounts over time."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

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


def test_nothing_is_a_picture_too() -> None:
    assert boxes(drawn()) == []
