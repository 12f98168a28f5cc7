"""Tests of the page of `schedprof capacity`, as a browser shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Reader
from capacities import SIZES, capacity, measured

from pytest_schedprof.model.capacity import Capacity
from pytest_schedprof.pages.capacity_page import page_of_capacity
from pytest_schedprof.pages.rendering import render_capacity


def written(directory: Path, found: Capacity) -> Path:
    page = directory / "capacity.html"
    page.write_text(render_capacity(page_of_capacity(found)), encoding="utf-8")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_measured_and_forecast_can_be_seen(
    tmp_path: Path, reader: Reader, scheme: str
) -> None:
    page = reader.open(written(tmp_path, capacity(measured())), color_scheme=scheme)
    assert page.locator("svg").count() == 2
    cost = page.locator("svg").first
    assert cost.locator("circle title").count() >= len(SIZES)
    line, band = cost.locator("polyline").bounding_box(), cost.locator("polygon").bounding_box()
    assert line is not None
    assert band is not None
    assert line["width"] > 100
    assert band["height"] >= line["height"]  # the forecast lies within its bounds
    assert page.locator("tbody tr").count() == len(SIZES) + 1
    assert not reader.faults


def test_two_sides_are_told_apart(tmp_path: Path, reader: Reader) -> None:
    sides = capacity(measured(), measured(1.1, name="distributed==2026.7.0"))
    page = reader.open(written(tmp_path, sides))
    dashes = (
        page.locator("svg")
        .first.locator("polyline")
        .evaluate_all("all => all.map(each => getComputedStyle(each).strokeDasharray)")
    )
    assert len({*dashes}) == 2
    assert page.locator("table").count() == 2
    assert not reader.faults


def test_it_fits_a_telephone(tmp_path: Path, reader: Reader) -> None:
    page = reader.open(
        written(tmp_path, capacity(measured())), viewport={"width": 400, "height": 800}
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert "NaN" not in page.content()
    assert not reader.faults
