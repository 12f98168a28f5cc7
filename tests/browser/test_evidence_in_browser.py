"""Tests of pictures of evidence, opened from disk by a browser."""

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
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (run,) = ran(tmp_path_factory.mktemp("project"), BODY, "--schedprof-workers=2")
    return run


def file_of(run: Path, test: str, name: str) -> Path:
    (path,) = run.glob(f"tests/*{test}*/{name}")
    return path


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
