"""Tests of the ledger of graph intake, as a browser shows it."""

from __future__ import annotations

from pathlib import Path

import axe
import pytest
from browsing import Reader, ran

from pytest_schedprof.model.evidence import STEPS

BODY = """
@pytest.mark.schedprof(backend="intake", evidence="phases", scale=[50, 500], cluster="simulated")
def test_graph(schedprof_scheduler, schedprof_scale):
    graph = {f"x{n}": (inc, n) for n in range(schedprof_scale)}
    wait(schedprof_scheduler.client.get(graph, list(graph), sync=False))
"""


@pytest.fixture(scope="module")
def page_of_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (page,) = ran(tmp_path_factory.mktemp("project"), BODY).glob("tests/*/index.html")
    return page


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_table_has_the_whole_way_in_its_order(
    page_of_graph: Path, reader: Reader, scheme: str
) -> None:
    page = reader.open(page_of_graph, color_scheme=scheme)
    rows = page.locator("table.ledger tbody tr")
    cells = [row.locator("td").all_inner_texts() for row in rows.all()]
    phases = ["construction", "optimisation", "serialisation", "sending"]
    names = [each[1] for each in cells]
    assert names[:4] == phases
    assert names[4:] == [step for step in STEPS if step in names]
    assert {"unpickling", "materialising", "culling", "ordering", "states", "rest"} <= set(names)
    parts = [float(each[5].rstrip("%")) for each in cells]
    assert sum(parts) == pytest.approx(100, abs=0.05 * len(parts) + 0.1)
    heads = page.locator("table.ledger thead th").all_inner_texts()
    assert heads[-3:] == ["at 50", "at 500", "growth"]
    (states,) = [each for each in cells if each[1] == "states"]
    assert float(states[-1]) == pytest.approx(1, abs=0.5)
    axe.check(page)
    assert not reader.faults


def test_the_bar_has_the_colours_of_the_table(page_of_graph: Path, reader: Reader) -> None:
    page = reader.open(page_of_graph)
    colour = "all => all.map(each => getComputedStyle(each).backgroundColor)"
    bar = page.locator("h3:has-text('From the client') + .bar span").evaluate_all(colour)
    table = page.locator("table.ledger .swatch").evaluate_all(colour)
    assert bar == table
    assert len(set(table[4:])) == len(table) - 4
    assert len(set(table[:4])) == 1


def test_evidence_has_the_steps_as_a_bar(page_of_graph: Path, reader: Reader) -> None:
    page = reader.open(page_of_graph)
    assert page.locator("a:has-text('phases.steps.svg')").count() == 1
    picture = reader.open(page_of_graph.with_name("phases.steps.svg"))
    assert "ordering" in "".join(picture.locator("g title").all_text_contents())


def test_a_narrow_screen_needs_no_scrolling(page_of_graph: Path, reader: Reader) -> None:
    page = reader.open(page_of_graph, viewport={"width": 400, "height": 800})
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) <= 400
    table = page.locator("table.ledger").bounding_box()
    assert table
    assert table["width"] <= 400
