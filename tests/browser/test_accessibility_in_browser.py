"""Tests that people who see little, or nothing, can read every kind of page, checked by axe."""

from __future__ import annotations

from pathlib import Path

import axe
import pytest
from browsing import WIDTH, Reader
from drawn import DUMPS, IN_TASKS, WRITE, drawn, drawn_test, kept
from measured import measured
from msgspec.structs import replace
from playwright.sync_api import Browser, Page

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.measuring.pages import write_pages
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of many tests, of which one has all that a page can show, compared with another."""
    place = tmp_path_factory.mktemp("runs")
    before = kept(place / "before", drawn_test(), drawn_test("test_a.py::test_c"))
    limits = tuple(
        LimitResult(text, verdict, (Finding(WRITE, ESTIMATE, verdict),), parsed=parse_limit(text))
        for text, verdict in zip(LIMITS, Verdict, strict=True)
    )
    slower = replace(drawn(STACKS_NOW, ORDER_NOW), limits=limits, warnings=("some were late",))
    rich = measured(
        slower,
        *drawn_test().backends[1:],
        unjudged=("peak <= 1MB",),
        evidence=(Evidence("tasks", (), missing="no Bokeh"),),
    )
    troubled = replace(rich, test_id="test_a.py::test_l", troubles=("the log was lost",))
    tests = [replace(rich, test_id="test_a.py::test_b"), troubled]
    tests += [drawn_test(f"test_a.py::test_{letter}") for letter in "cdefghijk"]
    now = kept(place / "now", *tests)
    write_pages(now, before)
    return now


LIMITS = (f"share({WRITE}) <= 90%", f"share({WRITE}) <= 10%", f"share({WRITE}) <= 30%")
ESTIMATE = Estimate(0.3, 0.25, 0.36, 900, 1.0)
STACKS_NOW = (IN_TASKS, (*IN_TASKS, WRITE), (*IN_TASKS, WRITE, DUMPS))
ORDER_NOW = [0, 1, 2] * 300


@pytest.mark.slow
def test_a_page_with_faults_fails(browser: Browser, tmp_path: Path) -> None:
    """Otherwise, no test here could fail."""
    (tmp_path / "page.html").write_text("<p style='color:#bbb'>pale</p><canvas tabindex=0>")
    page = Reader(browser).open(tmp_path / "page.html")
    with pytest.raises(AssertionError) as caught:
        axe.check(page)
    for rule in ("color-contrast", "document-title", "html-has-lang"):
        assert rule in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDTH, 400])
def test_pages_of_a_run_and_of_its_tests(run: Path, reader: Reader, width: int) -> None:
    """The page of a run has an elder in test_many_in_browser.py, which is narrow too."""
    for place in (run, run / "0", run / "1") if width == WIDTH else (run / "0",):
        page = reader.open(place / "index.html", viewport={"width": width, "height": 800})
        axe.check(page)
        if place != run:
            assert page.locator(".note.fail").count() == int(place.name)
        if place == run / "0":
            for words in ("What changed", "Limits", "Evidence", "Flame graph"):
                assert words in page.locator("main").inner_text()


CONTRAST = """() => {
    const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const style = name => getComputedStyle(document.documentElement).getPropertyValue(name);
    const luminance = colour => {
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const parts = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map(each => each / 255)
            .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const names = [...document.querySelector("style").textContent.matchAll(/--o-[\\w-]+(?=:)/g)];
    const colours = names.map(each => style(each[0]));
    for (const hue of ["--more", "--less"])
        for (const chroma of [0.3, 1.7])
            colours.push(`oklch(${style("--l")} ${chroma * style("--c")} ${style(hue)})`);
    const ink = luminance(style("--ink"));
    return colours.map(each => {
        const [dark, light] = [ink, luminance(each)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
    });
}"""
"""JavaScript: the contrast of text with each colour of a flame graph, which axe cannot see."""


@pytest.mark.parametrize("scheme", axe.SCHEMES)
def test_text_on_the_colours_of_a_flame_graph(run: Path, reader: Reader, scheme: str) -> None:
    page: Page = reader.open(run / "0" / "index.html", color_scheme=scheme)
    contrasts = page.evaluate(CONTRAST)
    assert len(contrasts) > 20
    assert min(contrasts) >= 4.5
