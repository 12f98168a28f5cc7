"""Tests of a session's Markdown: regressions first, names escaped, short enough for a comment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import changed, limited

from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.report.markup import code, plain
from pytest_schedprof.report.summary import MOST_BYTES, run_markdown


def test_what_got_worse_comes_first() -> None:
    results = [
        limited(Verdict.PASS, test_id="test_kept"),
        limited(Verdict.INCONCLUSIVE, test_id="test_unsure"),
        changed(0.5, test_id="test_better"),
        limited(Verdict.FAIL, test_id="test_broken"),
        changed(1.5, test_id="test_worse"),
    ]
    text = run_markdown(results, ".schedprof/run")
    assert text.splitlines()[0] == (
        "## ❌ Scheduler performance: 2 regressed, 2 improved; "
        "limits: 1 passed, 1 broken, 1 inconclusive; 5 profiled tests"
    )
    parts = ["### Regressions", "`test_worse`", "### Broken limits", "`test_broken`"]
    parts += ["### Undecided", "`test_unsure`", "<details>", "`test_better`", "<details>"]
    at = -1
    for part in [*parts, "`test_kept`"]:
        assert (at := text.find(part, at + 1)) > 0, part
    assert text.count("<details>") == text.count("</details>") == 2


@pytest.mark.parametrize("functions", [1, 40])
def test_a_comment_has_room_for_it_and_says_what_it_has_not(functions: int) -> None:
    alike = changed(2, functions)
    names = [f"test_{number:04d}" + "x" * 80 for number in range(300)]
    results = [
        replace(
            alike,
            test_id=name,
            comparisons=tuple(replace(one, test_id=name) for one in alike.comparisons),
        )
        for name in names
    ]
    text = run_markdown(results, ".schedprof/run")
    assert len(text.encode()) <= MOST_BYTES
    shown = text.partition("<details>")[0].count("| regressed | bytecodes |")
    assert " comparisons left out for lack of space: see `.schedprof/run`." in text
    assert " rows left out for lack of space: " in text
    assert shown >= 100
    assert text.count("<details>") == text.count("</details>")


@given(st.text())
def test_code_is_one_line_in_which_nothing_means_anything(text: str) -> None:
    shown = code(text)
    inner = shown.removeprefix("<code>").removesuffix("</code>").removeprefix("`").removesuffix("`")
    assert not set(inner) & set("`|\n\r\\")
    assert shown.startswith("`") or not set(inner) & set("<>*_")
    shown.encode()


@given(st.text())
def test_a_sentence_has_no_markup_and_calls_nobody(text: str) -> None:
    shown = plain(text).replace("@<!-- -->", "(at)")
    assert not set(shown) & set("<>@\n\r")
    shown.encode()
