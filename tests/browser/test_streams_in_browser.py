"""Tests of task streams in virtual time, as a browser shows them."""

from __future__ import annotations

from pathlib import Path

import axe
import pytest
from browsing import Reader, ran
from playwright.sync_api import Locator

from pytest_schedprof.measuring.pages import write_pages

ARGUMENTS = (
    "--schedprof=decisions",
    "--schedprof-cluster=virtual",
    "--schedprof-workers=4",
    "--schedprof-rounds=1",
)

BODY = """
@pytest.mark.schedprof(cluster_options={"duration": "exponential(50ms)", "nbytes": "2MB"})
def test_tree(schedprof_scheduler):
    client = schedprof_scheduler.client
    layer = client.map(inc, range(48), pure=False)
    wait([client.submit(max, *layer[i : i + 4], pure=False) for i in range(0, 48, 4)])
"""


@pytest.fixture(scope="module")
def page_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a test that was compared with a session of another setting of dask."""
    project = tmp_path_factory.mktemp("project")
    turns = [{"PYTHONHASHSEED": "0"}, {"DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "inf"}]
    before, run = ran(project, BODY, *ARGUMENTS, turns=turns)
    write_pages(run, against=before)
    (page,) = run.glob("tests/*/index.html")
    return page


def box(of: Locator) -> tuple[float, float, float, float]:
    place = of.bounding_box()
    assert place is not None
    return place["x"], place["y"], place["width"], place["height"]


@pytest.mark.slow
def test_both_streams_are_side_by_side_or_one_below_the_other(
    page_of_two: Path, reader: Reader
) -> None:
    page = reader.open(page_of_two)
    streams = page.locator(".streams").first.locator("svg")
    left, right = (box(streams.nth(number)) for number in range(2))
    assert left[1] == right[1]
    assert left[0] + left[2] < right[0]
    for number in range(2):
        (x, y, width, height), mark = box(streams.nth(number)), streams.nth(number).locator("rect")
        inside = box(mark)
        assert x <= inside[0] <= inside[0] + inside[2] <= x + width
        assert y <= inside[1] <= inside[1] + inside[3] <= y + height
        assert streams.nth(number).locator("path.s0").count() == 1
    colours = {
        page.locator(f"path.s{number}").first.evaluate("each => getComputedStyle(each).fill")
        for number in range(2)
    }
    assert len(colours) == 2
    assert "another worker for 'inc-" in page.locator("p.parting").inner_text()
    assert page.locator("ul.parting li").count() == 3
    axe.check(page)
    page.set_viewport_size({"width": 400, "height": 800})
    above, below = (box(streams.nth(number)) for number in range(2))
    assert above[0] == below[0]
    assert above[1] + above[3] < below[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
