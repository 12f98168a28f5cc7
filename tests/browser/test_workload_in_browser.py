"""Tests of the page of a recorded workload, as a browser shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from browsing import Reader
from random_workloads import Maker

from pytest_schedprof.model.workload import Graph, Group, Result, Task, WorkerEvent, Workload
from pytest_schedprof.pages.rendering import render_workload
from pytest_schedprof.pages.workload_page import page_of_workload

TASKS = 40


def half_done() -> Workload:
    """Tasks of a second each that come at once and run one after the other on one thread."""
    tasks = [Task(each, Group("inc"), [each - 1] if each else [], {}) for each in range(TASKS)]
    ended = {each: Result(each + 1.0, 1.0, 100, False) for each in range(TASKS)}
    workers = [WorkerEvent(0.0, 0, True, 1, 2**30)]
    graphs = [Graph(0.0, 0, tasks, [TASKS - 1])]
    return Workload("2026.8.0", graphs=graphs, workers=workers, results=ended)


def written(path: Path, workload: Workload) -> Path:
    page = path / "page.html"
    page.write_text(render_workload(page_of_workload(workload, "work")), encoding="utf-8")
    return page


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_areas_show_what_waits_runs_and_is_done(
    tmp_path: Path, reader: Reader, scheme: str
) -> None:
    page = reader.open(written(tmp_path, half_done()), color_scheme=scheme)
    tasks = page.locator(".stream").first
    areas = tasks.locator("path[class^=s]")
    assert areas.locator("title").all_text_contents() == ["done", "running", "waiting"]
    colours = areas.evaluate_all("all => all.map(each => getComputedStyle(each).fill)")
    assert len({*colours}) == 3
    sizes = areas.evaluate_all("all => all.map(each => each.getBBox().height)")
    assert sizes[0] == pytest.approx(120, abs=1)  # in the end all are done
    assert sizes[2] == pytest.approx(120 * (TASKS - 1) / TASKS, abs=1)
    swatches = page.locator(".legend .swatch")
    legend = swatches.evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
    assert legend == colours
    assert not reader.faults


def test_one_task_runs_at_each_time(tmp_path: Path, reader: Reader) -> None:
    page = reader.open(written(tmp_path, half_done()))
    running = page.locator("polyline.new").first.get_attribute("points")
    assert running is not None
    heights = {float(point.split(",")[1]) for point in running.split(" ")[1:]}
    assert heights == {0.0}  # one, which is the most there is
    assert page.locator("figure:has-text('Depth') path[class^=s]").count() == 1


def test_any_workload_has_a_page(tmp_path: Path, reader: Reader) -> None:
    some = Maker(seed=1, graphs=4, tasks=12, events=5).make()
    for number, each in enumerate([some, Workload(), replace(some, results={}, workers=[])]):
        directory = tmp_path / str(number)
        directory.mkdir()
        page = reader.open(written(directory, each), viewport={"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert "NaN" not in page.content()
    assert not reader.faults


def test_the_table_has_the_prefixes_by_their_time(tmp_path: Path, reader: Reader) -> None:
    some = Maker(seed=1, graphs=4, tasks=12, events=5).make()
    page = reader.open(written(tmp_path, some))
    rows = page.locator("#prefixes tbody tr").all()
    parts = [float(row.locator("td").nth(2).inner_text().rstrip("%")) for row in rows]
    assert parts == sorted(parts, reverse=True)
    assert sum(parts) == pytest.approx(100, abs=0.1 * len(parts))
    assert len(rows) == len({each.group.prefix for each in some.tasks()})
