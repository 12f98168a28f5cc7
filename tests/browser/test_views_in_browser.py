"""Tests of the views of a flame graph, against sums of the samples that it was made from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import axe
import pytest
from browsing import Reader, find, words_of_box
from drawn import (
    DUMPS,
    LOOP,
    OCCUPANCY,
    ORDER,
    STACKS,
    TRANSITION,
    WRITE,
    drawn_test,
    kept,
    with_sources,
)
from playwright.sync_api import Page

from pytest_schedprof.measuring.pages import write_pages

ALL = len(ORDER)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "now"
    kept(run, with_sources(run, drawn_test()))
    write_pages(run)
    return run / "0" / "index.html"


@pytest.fixture
def page(path: Path, reader: Reader) -> Page:
    page = reader.open(path)
    page.locator("canvas.main").focus()
    return page


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def says(page: Page, function: str, samples: int) -> None:
    """The box with the focus is that of a function, and has so many samples."""
    said = words_of_box(page)
    assert said.startswith(function)
    assert f" {samples} samples" in said, said


def samples(*part: str) -> int:
    """Samples whose stacks have these functions in one piece."""
    return sum(
        any(stack[i : i + len(part)] == part for i in range(len(stack)))
        for stack in (STACKS[index] for index in ORDER)
    )


def ending(*functions: str) -> int:
    """Samples whose stacks end like this."""
    return sum(STACKS[index][-len(functions) :] == functions for index in ORDER)


@pytest.mark.slow
def test_the_inverted_graph_begins_with_the_functions_in_which_samples_end(page: Page) -> None:
    press(page, "i")
    assert page.locator(".views input:checked").get_attribute("value") == "inverted"
    hottest = Counter(STACKS[index][-1] for index in ORDER).most_common()
    press(page, "ArrowDown")
    seen = []
    for _ in hottest:
        seen.append(words_of_box(page).split(" ")[0])
        says(page, seen[-1], ending(seen[-1]))
        press(page, "ArrowRight")
    assert sorted(seen) == sorted(function for function, _ in hottest)
    find(page, DUMPS)
    press(page, "ArrowDown")
    says(page, WRITE, ending(WRITE, DUMPS))
    press(page, "ArrowDown")
    says(page, TRANSITION, ending(TRANSITION, WRITE, DUMPS))
    press(page, "i")
    says(page, "all", ALL)
    press(page, "ArrowDown", "ArrowDown", "Enter", "Escape")
    says(page, "all", ALL)


def test_callers_stand_above_a_function_and_callees_below_it(page: Page) -> None:
    find(page, WRITE)
    press(page, "b")
    whole = samples(WRITE)
    says(page, WRITE, whole)
    press(page, "ArrowDown")
    says(page, DUMPS, ending(WRITE, DUMPS))
    page.locator("canvas.callers").focus()
    says(page, WRITE, whole)
    press(page, "ArrowUp")
    says(page, TRANSITION, samples(TRANSITION, WRITE))  # the event loop, the other, is left out
    press(page, "ArrowDown")
    says(page, WRITE, whole)


def test_the_callers_can_be_clicked_and_left(page: Page) -> None:
    find(page, OCCUPANCY)
    press(page, "b")
    callers = page.locator("canvas.callers")
    height = (callers.bounding_box() or {"height": 0})["height"]
    callers.click(position={"x": 20, "y": height - 1.5 * 18})
    says(page, TRANSITION, ending(OCCUPANCY))
    press(page, "Escape")  # the zoom
    assert callers.is_visible()
    press(page, "Escape")  # the view
    assert callers.is_hidden()
    assert page.locator(".views input:checked").get_attribute("value") == "calls"


def test_callers_of_nothing_are_those_of_the_function_with_most_samples(page: Page) -> None:
    page.get_by_role("radio", name="callers and callees").check()
    ((function, _),) = Counter(STACKS[index][-1] for index in ORDER).most_common(1)
    assert words_of_box(page).startswith(function)


@pytest.mark.slow
def test_views_can_be_read_out(page: Page) -> None:
    for key in ("i", "b"):
        press(page, key)
        axe.check(page)


@pytest.mark.slow
def test_the_address_opens_the_same_view(page: Page, reader: Reader) -> None:
    find(page, OCCUPANCY)
    press(page, "ArrowUp", "Enter")
    zoomed, picture = words_of_box(page), page.locator("canvas.main").screenshot()
    again = reader.open_address(page.url)
    again.locator("canvas.main").focus()
    assert again.locator(".search").input_value() == OCCUPANCY
    assert words_of_box(again) == zoomed
    assert again.locator("canvas.main").screenshot() == picture
    press(page, "b")
    again = reader.open_address(page.url)
    assert again.locator(".views input:checked").get_attribute("value") == "sandwich"
    assert words_of_box(again) == words_of_box(page)


def test_an_address_of_another_run_opens_what_there_is(path: Path, reader: Reader) -> None:
    for view in ("view=sandwich&of=no:function", "at=zzzz&view=none", "%"):
        page = reader.open_address(f"{path.as_uri()}#graph=flame-0&{view}")
        assert page.locator(".views input:checked").get_attribute("value") == "calls"
        assert "here 100.0%" in words_of_box(page)


def test_a_stack_can_be_copied(path: Path, reader: Reader) -> None:
    page = reader.open(path, permissions=["clipboard-read", "clipboard-write"])
    page.locator("canvas.main").focus()
    find(page, DUMPS)
    for view in ("calls", "inverted"):
        page.get_by_role("radio", name=view).check()
        find(page, OCCUPANCY)
        press(page, *(["ArrowDown"] * 9 if view == "inverted" else []), "c")
        below = STACKS[1][STACKS[1].index(LOOP) + 1 :]
        page.locator(f".found:has-text('copied a stack of {len(below)}')").wait_for()
        assert page.evaluate("navigator.clipboard.readText()").split("\n") == list(below)


@pytest.mark.slow
def test_a_box_and_a_row_open_the_code_with_samples_in_each_line(page: Page) -> None:
    code = page.locator("details.code[open]")
    find(page, DUMPS)
    press(page, "s")
    assert page.locator(".found").inner_text() == "the page has no code of this function"
    assert code.count() == 0
    find(page, TRANSITION)
    press(page, "s")
    assert TRANSITION in code.locator("summary").inner_text()
    rows = code.locator("tbody tr:not(.gap)")
    cells = [[cell.strip() for cell in row.locator("td").all_inner_texts()] for row in rows.all()]
    seen = {int(line): (both, own) for line, both, own, _ in cells if both}
    assert seen == {
        100 + number: (str(ORDER.count(number)), str(ORDER.count(number)) if number == 0 else "")
        for number, stack in enumerate(STACKS)
        if TRANSITION in stack and number != 5  # of the collector, only its own time counts
    }
    assert cells[0][0] == "98"  # two lines before the first one with samples
    assert cells[0][-1] == "line_98 = 0"
    page.locator("tbody a", has_text="TCP.write").first.click()
    page.locator("details.code[open] summary", has_text="TCP.write").wait_for()
    axe.check(page)
