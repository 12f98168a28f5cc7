"""Tests of the page of a run of 200 tests: what is broken is seen, and all else is found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import axe
import pytest
from browsing import Reader
from drawn import TRANSITION, WRITE, kept
from measured import counted, measured, sampled
from msgspec.structs import replace
from playwright.sync_api import Page

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.measuring.pages import write_pages
from pytest_schedprof.model.comparison import Change, Comparison, Outcome
from pytest_schedprof.model.limit import LimitResult, Verdict
from pytest_schedprof.model.profile import Stack
from pytest_schedprof.model.result import Result

TESTS, FILES = 200, 8

LARGEST = 400_000
"""Bytes of the page of the run."""


def results() -> Iterator[Result]:
    """Tests of eight files; one failed, one broke a limit, one is undecided and one changed."""
    chance = random.Random(0)
    for number in range(TESTS):
        share = chance.uniform(0.1, 0.9)
        cpu = chance.uniform(100e-6, 900e-6)
        shares: dict[Stack, float] = {(TRANSITION,): share, (WRITE,): 1 - share}
        backend = sampled(shares, cpu=[cpu] * 2, samples=60, seed=number)
        test = f"tests/test_{number % FILES}.py::test_{number:03}"
        result = measured(backend, counted({TRANSITION: 1052.0}), test_id=test)
        yield changed_at(number, result)


def changed_at(number: int, result: Result) -> Result:
    if number == 50:
        return replace(result, outcome="failed")
    if number in (60, 70):
        verdict = Verdict.FAIL if number == 60 else Verdict.INCONCLUSIVE
        bound = parse_limit("share(@comm) <= 1%")
        limit = LimitResult(str(bound), verdict, (), parsed=bound)
        return replace(result, backends=(replace(result.backends[0], limits=(limit,)),))
    if number == 80:
        change = Change("calls", "a:f", "comm", Outcome.IMPROVED, 2.0, 1.0, -1.0, -1.0)
        comparison = Comparison(result.test_id, "counts", "", (change,), 0)
        return replace(result, baseline="main", comparisons=(comparison,))
    return result


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pages(kept(tmp_path_factory.mktemp("runs") / "now", *results()))


def shown(page: Page) -> list[str]:
    rows = page.locator("#tests tbody tr:visible td.test a")
    return [name.partition("::")[2] for name in rows.all_inner_texts()]


def costs(page: Page) -> list[float]:
    cells = page.locator("#tests tbody td.meter").all_inner_texts()
    return [float(text.removesuffix(" us").replace(",", "")) for text in cells]


@pytest.mark.slow
def test_what_is_broken_comes_first_and_all_can_be_found(path: Path, reader: Reader) -> None:
    page = reader.open(path)
    assert len(shown(page)) == TESTS
    assert shown(page)[:3] == ["test_050", "test_060", "test_070"]
    page.keyboard.press("/")
    page.keyboard.type("TEST_05")
    assert sorted(shown(page)) == [f"test_{number:03}" for number in range(50, 60)]
    page.keyboard.press("Escape")
    assert len(shown(page)) == TESTS
    page.keyboard.type("_transition")
    assert 0 < len(shown(page)) < TESTS, "it is not the hottest function of all tests"
    page.keyboard.press("Escape")
    page.keyboard.type("transitions")
    assert len(shown(page)) == TESTS, "it is an owner in all of them"
    page.keyboard.press("Escape")
    expected = {
        "fail": ["test_050", "test_060"],
        "inconclusive": ["test_070"],
        "changed": ["test_080"],
    }
    for kind, tests in expected.items():
        page.get_by_role("radio", name=kind).check()
        assert shown(page) == tests
        assert page.locator(".shown").inner_text() == f"{len(tests)} of {TESTS}"
    page.get_by_role("radio", name="all").check()
    assert len(shown(page)) == TESTS


def test_files_tell_their_verdicts_and_find_their_tests(path: Path, reader: Reader) -> None:
    page = reader.open(path)
    rows = page.locator(".groups tbody tr")
    assert rows.count() == FILES
    first = rows.first.inner_text()
    assert "test_2.py" in first or "test_4.py" in first  # of tests 50 and 60
    assert "1 fail, 24 pass" in first
    page.locator(".groups button", has_text="test_5.py").press("Enter")
    assert shown(page) == [f"test_{number:03}" for number in range(5, TESTS, FILES)]
    page.keyboard.press("Escape")
    assert len(shown(page)) == TESTS


@pytest.mark.slow
def test_columns_sort_by_mouse_and_by_keyboard(path: Path, reader: Reader) -> None:
    page = reader.open(path)
    cost = page.get_by_role("button", name="CPU / task")
    cost.click()
    assert costs(page) == sorted(costs(page), reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("CPU / task")
    cost.press("Enter")
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert costs(page) == sorted(costs(page))
    page.get_by_role("button", name="test", exact=True).press("Enter")
    assert shown(page)[:9] == [f"test_{n:03}" for n in (*range(0, 72, 8),)]
    page.get_by_role("button", name="verdict").click()
    assert shown(page)[:3] == ["test_050", "test_060", "test_070"]


@pytest.mark.slow
def test_it_is_small_and_can_be_read_out(path: Path, reader: Reader) -> None:
    """A wide page of a run is read out in test_accessibility_in_browser.py."""
    assert path.stat().st_size < LARGEST
    page = reader.open(path, viewport={"width": 400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_role("button", name="CPU / task").click()
    axe.check(page)
