"""Tests of a run's pages, read as readers do: with a mouse, a keyboard, and without scripts."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from browsing import Reader, ran, words_of_box
from measured import sampled
from msgspec.structs import replace
from playwright.sync_api import Browser
from support import shares_in

from pytest_schedprof.judge.recordings import read_samples
from pytest_schedprof.measuring.pages import write_pages
from pytest_schedprof.report.flames import call_tree, flame
from pytest_schedprof.report.pages import as_json
from pytest_schedprof.store.runs import find_run

BODY = """
LIMITS = "share(@comm) <= 99%", "calls(distributed.scheduler:SchedulerState._transition) <= 99"

@pytest.mark.schedprof(*LIMITS, backend="cputime,counts", rate=400)
@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "plain"])
def test_tasks(schedprof_scheduler, name):
    wait(schedprof_scheduler.client.map(inc, range(60), pure=False))
    burn(schedprof_scheduler, float(os.environ["BURN"]))
"""

SCRIPT = "test_it.py::test_tasks[<script>alert(1)</script>]"

ROW = 18
"""Height of a row of a flame graph."""

LARGEST = 20e6 / 200
"""Largest size of a page in bytes, so that the pages of 200 tests stay under 20 MB."""


class Runs(NamedTuple):
    before: Path
    after: Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Two runs of one project; in the later one the scheduler burns half a second more."""
    turns = [
        {"BURN": "0.1", "PYTEST_ADDOPTS": "-k plain"},
        {"BURN": "0.6", "PYTEST_ADDOPTS": ""},
    ]
    project = tmp_path_factory.mktemp("project")
    return Runs(*ran(project, BODY, "--schedprof-workers=1", turns=turns))


def page_of(run: Path, part: str) -> Path:
    (path,) = run.glob(f"tests/*{part}*/index.html")
    return path


@pytest.mark.slow
def test_samples_are_those_of_the_record_by_its_names(runs: Runs) -> None:
    """Otherwise, figures of a flame graph would differ from those of the tables beside it."""
    for test in find_run(runs.after).tests():
        (backend,) = [backend for backend in test.result.backends if backend.shares]
        stacks = read_samples(test.path, backend).stacks
        shares = shares_in(replace(test.result, backends=(backend,)))
        assert stacks.total() == shares.busy_samples
        for one in shares.functions:
            held = sum(n for stack, n in stacks.items() if one.function in stack)
            assert held == round(one.share.value * shares.busy_samples), one.function


def test_a_run_leads_to_its_tests_whose_names_stay_text(runs: Runs, reader: Reader) -> None:
    page = reader.open(runs.after / "index.html")
    assert page.locator("#tests .verdict").all_inner_texts() == ["✓ pass"] * 2
    page.get_by_role("link", name=SCRIPT).click()
    assert page.locator("h1").inner_text() == SCRIPT
    assert page.locator(".interval .limit").count() >= 2
    assert "calls / task" in page.locator("main").inner_text()
    page.get_by_role("link", name="run 2").click()
    assert page.locator("h1").inner_text() == runs.after.name


def test_a_flame_graph_zooms_by_mouse_and_by_keyboard(runs: Runs, reader: Reader) -> None:
    page = reader.open(page_of(runs.after, "plain"))
    canvas = page.locator(".flame canvas.main")
    whole = canvas.screenshot()
    assert "here 100.0%" in words_of_box(page)
    canvas.click(position={"x": 20, "y": 2.5 * ROW})
    zoomed = words_of_box(page)
    assert canvas.screenshot() != whole
    assert re.search(r"here \d+\.\d%.*us per task.*in all stacks .* bounds .* to .*self", zoomed)
    page.keyboard.press("Escape")
    assert page.locator(".whole").is_hidden()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.mouse.move(0, 0)
    page.keyboard.press("Enter")
    assert page.locator(".whole").is_visible()
    assert words_of_box(page) == zoomed
    page.get_by_role("button", name="whole graph").click()
    page.mouse.move(0, 0)
    assert "here 100.0%" in words_of_box(page)


def test_search_finds_what_holds_the_time(runs: Runs, reader: Reader) -> None:
    page = reader.open(page_of(runs.after, "plain"))
    before = page.locator(".flame canvas.main").screenshot()
    page.keyboard.press("/")
    page.keyboard.type("BURN_scheduler")
    words = page.locator(".found").inner_text()
    match = re.fullmatch(r"1 function, (\d+\.\d)% of all samples", words)
    assert match is not None
    result = find_run(runs.after).test("plain").result
    (shares,) = [backend.shares for backend in result.backends if backend.shares]
    (share,) = [share.share for share in shares.functions if "burn_scheduler_cpu" in share.function]
    assert float(match[1]) == pytest.approx(100 * share.value, abs=0.06)
    assert page.locator(".flame canvas.main").screenshot() != before
    page.keyboard.press("Enter")
    assert "burn_scheduler_cpu" in words_of_box(page)
    page.keyboard.press("Escape")
    assert page.locator(".found").inner_text() == ""
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    assert page.locator(".found").inner_text() == "no function"


def test_a_difference_is_told_in_both_modes(runs: Runs, tmp_path: Path, reader: Reader) -> None:
    before, after = (Path(shutil.copytree(run, tmp_path / run.name)) for run in runs)
    write_pages(after, before)
    page = reader.open(page_of(after, "plain"))
    assert "What changed since" in page.locator("main").inner_text()
    page.keyboard.press("/")
    page.keyboard.type("burn_scheduler")
    page.keyboard.press("Enter")
    pictures = [page.locator(".flame canvas.main").screenshot()]
    for mode, change in (("absolute", r"→ .*\+[\d.,]+ us \(\+"), ("relative", r"→ .*\+[\d.]+ pp")):
        page.get_by_label(f"change, {mode}").check()
        page.mouse.move(0, 0)  # off the box to which a page that scrolled has brought it
        assert re.search(change, words_of_box(page)), words_of_box(page)
        pictures.append(page.locator(".flame canvas.main").screenshot())
    assert len(set(pictures)) == 3


def test_without_scripts_a_page_says_what_is_missing(runs: Runs, reader: Reader) -> None:
    page = reader.open(page_of(runs.after, "plain"), java_script_enabled=False)
    assert "drawn by a script" in page.locator("noscript").inner_text()
    assert page.locator(".flame").is_hidden()
    assert page.locator("table").count() > 3


def test_pages_are_small_and_none_is_wider_than_a_telephone(runs: Runs, reader: Reader) -> None:
    for path in (runs.after / "index.html", *runs.after.glob("tests/*/index.html")):
        assert path.stat().st_size < LARGEST
        page = reader.open(path, viewport={"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.slow
def test_fifty_thousand_nodes_are_drawn(runs: Runs, reader: Reader) -> None:
    path = page_of(runs.after, "plain").with_name("large.html")
    path.write_text(with_tree_of(50_000, page_of(runs.after, "plain").read_text()))
    page = reader.open(path)
    assert int(page.locator(".flame").get_attribute("data-drawn") or 0) > 50_000


def with_tree_of(nodes: int, page: str) -> str:
    """Return the page with another flame graph, of about so many nodes."""
    chance = random.Random(0)
    stacks = Counter(
        tuple(f"module_{n % 7}:f{chance.randrange(n + 2)}" for n in range(chance.randrange(5, 40)))
        for _ in range(nodes // 15)
    )
    tree = call_tree(stacks)
    large = flame("flame-0", tree, sampled({("a:b",): 1.0}))
    return re.sub(
        r'(id="flame-0-data">).*?(</script>)',
        lambda match: match[1] + str(as_json(large.content)) + match[2],
        page,
    )


PAGE = """<!doctype html><img src="http://example.invalid/x.png"><img src="absent.png">
<script>console.error("as it should"); throw new Error("thrown")</script>"""


def test_network_missing_files_and_errors_are_faults(browser: Browser, tmp_path: Path) -> None:
    """Otherwise, no test of a page could fail by them."""
    (tmp_path / "page.html").write_text(PAGE)
    reader = Reader(browser)
    reader.open(tmp_path / "page.html").wait_for_load_state("load")
    reader.close()
    faults = "\n".join(reader.faults)
    for expected in ("asked the network for http://example", "absent.png", "as it", "thrown"):
        assert expected in faults
