"""Tests of task streams in virtual time and of pictures of evidence, as a browser shows them."""

from __future__ import annotations

from pathlib import Path

import axe
import pytest
from browsing import Reader, ran
from playwright.sync_api import Locator

from pytest_schedprof.measuring.pages import write_pages

BODY = """
import dask.threaded

@pytest.mark.schedprof(
    backend="decisions",
    cluster="virtual",
    workers=4,
    rounds=1,
    cluster_options={"duration": "exponential(50ms)", "nbytes": "2MB"},
)
def test_tree(schedprof_scheduler):
    client = schedprof_scheduler.client
    layer = client.map(inc, range(48), pure=False)
    wait([client.submit(max, *layer[i : i + 4], pure=False) for i in range(0, 48, 4)])

EVIDENCE = "memory,tasks,report,workers,phases,local"

def busy(number):
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass

OFTEN = {"workers": {"interval": "5ms", "cycle": 0.1}}

@pytest.mark.schedprof(evidence=EVIDENCE, options=OFTEN, backend="cputime", workers=2)
def test_cluster(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(busy, range(12)))

@pytest.mark.schedprof(evidence="local", backend="cputime")
def test_local():
    dask.threaded.get({"x": (busy, 1), "y": (busy, "x")}, "y")
"""

TURNS = [
    {"PYTHONHASHSEED": "0", "PYTEST_ADDOPTS": "-k tree"},
    {"DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "inf", "PYTEST_ADDOPTS": ""},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which a test was compared with a session of another setting of dask."""
    before, run = ran(tmp_path_factory.mktemp("project"), BODY, turns=TURNS)
    write_pages(run, against=before)
    return run


def file_of(run: Path, test: str, name: str) -> Path:
    (path,) = run.glob(f"tests/*{test}*/{name}")
    return path


def box(element: Locator) -> tuple[float, float, float, float]:
    place = element.bounding_box()
    assert place is not None
    return place["x"], place["y"], place["width"], place["height"]


@pytest.mark.slow
def test_both_streams_are_side_by_side_or_one_below_the_other(run: Path, reader: Reader) -> None:
    page = reader.open(file_of(run, "test_tree", "index.html"))
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


DRAWN = """() => {
    const all = root => [...root.querySelectorAll("*")].flatMap(
        each => [each, ...(each.shadowRoot ? all(each.shadowRoot) : [])]);
    const pixels = canvas =>
        canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer;
    const colours = canvas => canvas.width && canvas.height
        ? new Set(new Uint32Array(pixels(canvas))).size : 0;
    return all(document).some(each => each.localName === "canvas" && colours(each) > 2);
}"""
"""JavaScript that finds a canvas, also in shadow roots, with more than background and frame."""


@pytest.mark.slow
def test_pictures_have_drawn_something(run: Path, reader: Reader) -> None:
    for name in ("memory.html", "tasks.html", "report.html"):
        page = reader.open(file_of(run, "test_cluster", name))
        if name == "report.html":  # its first tab is text, and Bokeh 3.10 draws a tab when it shows
            page.get_by_text("Task Stream", exact=True).click()
        page.wait_for_function(DRAWN)
    reader.open(file_of(run, "test_local", "local.html")).wait_for_function(DRAWN)
    for name in ("workers.svg", "phases.svg", "workers.timeline.svg"):
        page = reader.open(file_of(run, "test_cluster", name))
        boxes = [box.bounding_box() for box in page.locator("g rect").all()]
        assert len([box for box in boxes if box and box["width"] > 1 and box["height"] > 1]) > 1
