"""Tests of pictures of evidence and of the ledger of intake, opened from disk by a browser."""

from __future__ import annotations

from pathlib import Path

import axe
import pytest
from browsing import Reader, ran

from pytest_schedprof.model.evidence import STEPS

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

@pytest.mark.schedprof(backend="intake", evidence="phases", scale=[50, 500], cluster="simulated")
def test_graph(schedprof_scheduler, schedprof_scale):
    graph = {f"x{n}": (inc, n) for n in range(schedprof_scale)}
    wait(schedprof_scheduler.client.get(graph, list(graph), sync=False))
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


@pytest.mark.slow
@pytest.mark.parametrize("scheme", axe.SCHEMES)
def test_the_ledger_has_the_whole_way_in_its_order(run: Path, reader: Reader, scheme: str) -> None:
    path = file_of(run, "test_graph", "index.html")
    page = reader.open(path, color_scheme=scheme)
    rows = page.locator("table.ledger tbody tr")
    cells = [row.locator("td").all_inner_texts() for row in rows.all()]
    phases = ["construction", "optimisation", "serialisation", "sending"]
    names = [row[1] for row in cells]
    assert names[:4] == phases
    assert names[4:] == [step for step in STEPS if step in names]
    assert {"unpickling", "materialising", "culling", "ordering", "states", "rest"} <= set(names)
    parts = [float(row[5].rstrip("%")) for row in cells]
    assert sum(parts) == pytest.approx(100, abs=0.05 * len(parts) + 0.1)
    heads = page.locator("table.ledger thead th").all_inner_texts()
    assert heads[-3:] == ["at 50", "at 500", "growth"]
    (states,) = [row for row in cells if row[1] == "states"]
    assert float(states[-1]) == pytest.approx(1, abs=0.5)
    axe.check(page)
    colour = "all => all.map(element => getComputedStyle(element).backgroundColor)"
    bar = page.locator("h3:has-text('From the client') + .bar span").evaluate_all(colour)
    table = page.locator("table.ledger .swatch").evaluate_all(colour)
    assert bar == table
    assert len(set(table[4:])) == len(table) - 4
    assert len(set(table[:4])) == 1
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    box = page.locator("table.ledger").bounding_box()
    assert box
    assert box["width"] <= 400
    assert page.locator("a:has-text('phases.steps.svg')").count() == 1
    picture = reader.open(path.with_name("phases.steps.svg"))
    assert "ordering" in "".join(picture.locator("g title").all_text_contents())
