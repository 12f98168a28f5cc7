"""Tests of a session's Markdown: regressions first, names escaped, short enough for a comment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import SCHEDULER, counted, measured

from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.model.result import Result
from pytest_schedprof.report.markup import code, plain
from pytest_schedprof.report.summary import MOST_BYTES, run_markdown

TRANSITION = f"{SCHEDULER}._transition"


def limit(verdict: Verdict, text: str = "calls(*:*) <= 1") -> LimitResult:
    finding = Finding(TRANSITION, Estimate(7.0, 7.0, 7.0, 100, 0.0), verdict)
    return LimitResult(text, verdict, (finding,), parsed=parse_limit(text))


def regressed(test_id: str, factor: float = 1.5, functions: int = 1) -> Result:
    names = [f"{TRANSITION}{number or ''}" for number in range(functions)]
    before = measured(counted(dict.fromkeys(names, 100.0)), test_id=test_id)
    after = measured(counted(dict.fromkeys(names, 100.0 * factor)), test_id=test_id)
    return replace(after, baseline="main", comparisons=compare([before], [after]).comparisons)


def limited(test_id: str, verdict: Verdict) -> Result:
    backend = replace(counted({TRANSITION: 7.0}), limits=(limit(verdict),))
    return measured(backend, test_id=test_id)


def test_what_got_worse_comes_first() -> None:
    results = [
        limited("test_kept", Verdict.PASS),
        limited("test_unsure", Verdict.INCONCLUSIVE),
        regressed("test_better", 0.5),
        limited("test_broken", Verdict.FAIL),
        regressed("test_worse"),
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
    alike = regressed("test_x", 2, functions)
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
