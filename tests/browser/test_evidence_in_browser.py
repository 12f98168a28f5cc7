"""Tests of pictures of evidence, opened from disk without a network, as readers open them."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Reader, ran

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

BODY = """
import dask.threaded

EVIDENCE = "memory,tasks,report,workers,phases,local"

def busy(number):
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass

@pytest.mark.schedprof(evidence=EVIDENCE, backend="cputime")
def test_cluster(schedprof_scheduler):
    # Workers keep a profile of each second, so it must take longer.
    wait(schedprof_scheduler.client.map(busy, range(30)))

@pytest.mark.schedprof(evidence="local", backend="cputime")
def test_local():
    dask.threaded.get({"x": (busy, 1), "y": (busy, "x")}, "y")
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pictures of a real run, by file name."""
    run = ran(tmp_path_factory.mktemp("project"), BODY)
    files = run.glob("tests/*/*")
    return {path.name: path for path in files if path.suffix in (".html", ".svg")}


@pytest.mark.slow
def test_dasks_pages_have_drawn_something(pictures: dict[str, Path], reader: Reader) -> None:
    for name in ("memory.html", "tasks.html", "report.html", "local.html"):
        page = reader.open(pictures[name])
        if name == "report.html":  # its first tab is text, and Bokeh 3.10 draws a tab when it shows
            page.get_by_text("Task Stream", exact=True).click()
        page.wait_for_function(DRAWN)


@pytest.mark.slow
def test_our_pictures_have_boxes(pictures: dict[str, Path], reader: Reader) -> None:
    for name in ("workers.svg", "phases.svg"):
        page = reader.open(pictures[name])
        boxes = [box.bounding_box() for box in page.locator("rect").all()]
        assert len([box for box in boxes if box and box["width"] > 1 and box["height"] > 1]) > 1
