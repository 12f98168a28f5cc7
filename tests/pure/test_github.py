"""Tests of what a pull request shows: a summary in Markdown, and annotations at lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import TEST, TRANSITION, changed, compare, counted, limited, measured
from msgspec.structs import replace

from pytest_schedprof.cli.ci import annotations_of, workflow_command
from pytest_schedprof.judge.explanation import source_change
from pytest_schedprof.model.explanation import Cost, Explanation, Part, Source
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import Result
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
    text = run_markdown(results, ".schedprof/run", ["new: test_<new>"])
    assert "\n- new: test\\_&lt;new&gt;\n" in text
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


def test_a_test_that_failed_by_itself_is_told_and_one_that_was_skipped_is_no_failure() -> None:
    passed, skipped = changed(1.0), changed(1.0, test_id="test_x")
    assert run_markdown([passed, replace(skipped, outcome="skipped")], "x").startswith("## ✅")
    text = run_markdown([passed, replace(skipped, outcome="failed")], "x")
    assert text.startswith("## ❌")
    assert "### Tests that failed for another reason\n\n- `test_x`: failed\n" in text


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


@given(st.sampled_from(["https://", "HTTP://", "ftp://", "www.", "WwW.", "a@"]), st.text())
def test_no_sentence_has_a_link(start: str, text: str) -> None:
    shown = plain(f"{text} {start}example.com/x")
    assert not re.search(r"://|www\.|@\w", shown, re.IGNORECASE)


NEW = "class SchedulerState:\n    def _transition(self):\n        a = 1\n        b = 2\n"
INSTALLED = ".venv/lib/python3.12/site-packages/elsewhere/module.py"


def explanation(file: str, *, with_source: bool = True) -> Explanation:
    """Why: two lines are new."""
    one, other = (
        Source(file, 2, "    def _transition(self):\n"),
        Source(file, 2, NEW.split("\n", 1)[1]),
    )
    source = source_change(one, other, None, None) if with_source else None
    part = Part(TRANSITION, "transitions", Cost(100.0, 1.0), Cost(200.0, 1.0), source=source)
    return Explanation(TEST, "counts", "bytecodes", 100.0, 200.0, (part,))


CLASSES = "".join(f"class {name}:\n    def test_x(self): ...\n" for name in ("TestA", "TestB"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {
        "distributed/scheduler.py": NEW,
        "tests/test_x.py": f"\n\n@mark\ndef test_tasks():\n    pass\n{CLASSES}",
        "a[1]/test_y.py": "@mark\nasync def test_y():\n    pass\n",
        INSTALLED: NEW,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def lines_of(
    checkout: Path, result: Result, *explained: Explanation, working: str = ""
) -> list[str]:
    return list(annotations_of(result, explained, checkout, checkout / working))


@pytest.mark.parametrize(
    ("file", "with_source", "place"),
    [
        ("distributed/scheduler.py", True, "file=distributed/scheduler.py,line=3,endLine=4,"),
        ("distributed/scheduler.py", False, "file=tests/test_x.py,line=4,endLine=4,"),
        (INSTALLED, True, "file=tests/test_x.py,line=4,endLine=4,"),
        ("/elsewhere/scheduler.py", True, "file=tests/test_x.py,line=4,endLine=4,"),
    ],
)
def test_a_regression_is_marked_at_the_lines_that_explain_it_or_at_the_test(
    checkout: Path, file: str, with_source: bool, place: str
) -> None:
    why = explanation(str(checkout / file), with_source=with_source)
    (line,) = lines_of(checkout, changed(2), why)
    assert line.startswith(f"::error {place}title=Scheduler performance%2C {TEST[:5]}")
    assert "is called as before (1 per task), 100 bytecodes more per call" in line


def test_a_regression_that_nothing_explains_tells_what_regressed(checkout: Path) -> None:
    (line,) = lines_of(checkout, changed(2), replace(explanation(""), test_id="another"))
    assert f"::regressed: bytecodes of {TRANSITION}: 100 before, 200 now per task" in line


@pytest.mark.parametrize(
    ("test", "working", "place"),
    [
        ("test_x.py::test_tasks[1-a::b]", "tests", "file=tests/test_x.py,line=4,endLine=4,"),
        ("tests/test_x.py::test_gone", "tests", "file=tests/test_x.py,line=1,endLine=1,"),
        ("tests/test_x.py::TestB::test_x", "", "file=tests/test_x.py,line=9,endLine=9,"),
        ("tests/test_x.py::TestB::test_gone", "", "file=tests/test_x.py,line=8,endLine=8,"),
        ("tests/test_x.py", "", "file=tests/test_x.py,line=1,endLine=1,"),
        ("a[1]/test_y.py::test_y[2]", "", "file=a[1]/test_y.py,line=2,endLine=2,"),
        ("../../etc/passwd::test_gone", "", "file=../../etc/passwd,line=1,endLine=1,"),
    ],
)
def test_tests_are_found_from_the_directory_in_which_they_ran(
    checkout: Path, test: str, working: str, place: str
) -> None:
    (line,) = lines_of(checkout, limited(Verdict.FAIL, test_id=test), working=working)
    assert line.startswith(f"::error {place}")


def test_limits_and_troubles_are_told_by_how_grave_they_are(checkout: Path) -> None:
    assert lines_of(checkout, limited(Verdict.PASS)) == []
    doubtful = replace(limited(Verdict.INCONCLUSIVE), troubles=("py-spy died",))
    limit, trouble = lines_of(checkout, doubtful)
    assert limit.startswith("::warning ")
    assert trouble.startswith("::warning ")
    assert trouble.endswith("::py-spy died")


def test_single_undecided_figures_are_no_remarks(checkout: Path) -> None:
    before = measured(counted({TRANSITION: 100.0}))
    after = measured(counted({TRANSITION: 100.0}, {TRANSITION: 130.0}, {TRANSITION: 100.0}))
    (comparison,) = compare([before], [after], names=("main", "now")).comparisons
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert lines_of(checkout, replace(after, comparisons=(comparison,))) == []


def test_commands_are_those_that_github_reads() -> None:
    assert workflow_command("error", "100% more\nof it", line=3, title="a.py::t[x,y]") == (
        "::error line=3,title=a.py%3A%3At[x%2Cy]::100%25 more%0Aof it"
    )
    assert workflow_command("notice", "text") == "::notice::text"


def test_no_name_can_begin_a_command_or_add_a_property() -> None:
    evil = "x\r\n::set-env name=PATH::/evil\x1b[2J,line=9::\u2028::error::"
    line = workflow_command("error", evil, title=evil)
    assert len(line.splitlines()) == 1
    assert re.fullmatch(r"::error title=[^:,]*::.*", line)
    assert line.isprintable()
