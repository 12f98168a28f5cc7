"""Tests of remarks, of the lines of a checkout that they belong to, and of their formats."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from measured import TEST, counted, measured

from pytest_schedprof.cli.annotations import (
    MOST,
    Annotation,
    Remark,
    annotations_of,
    as_commands,
    command,
    remarks_of,
)
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.explanation import source_change
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.explanation import Cost, Explanation, Part, Source
from pytest_schedprof.model.limit import LimitResult, Verdict
from pytest_schedprof.model.result import Result

FUNCTION = "distributed.scheduler:SchedulerState._transition"
NEW = "class SchedulerState:\n    def _transition(self):\n        a = 1\n        b = 2\n"


def regressed(test: str = TEST) -> Result:
    """A test of which a function costs twice as much as before."""
    before = measured(counted({FUNCTION: 100.0}), test_id=test)
    after = measured(counted({FUNCTION: 200.0}), test_id=test)
    report = compare([before], [after], names=("main", "now"))
    return replace(after, comparisons=report.comparisons)


def explanation(file: str, *, with_source: bool = True) -> Explanation:
    """Why: two lines are new."""
    one, other = (
        Source(file, 2, "    def _transition(self):\n"),
        Source(file, 2, NEW.split("\n", 1)[1]),
    )
    source = source_change(one, other, None, None) if with_source else None
    part = Part(FUNCTION, "transitions", Cost(100.0, 1.0), Cost(200.0, 1.0), source=source)
    return Explanation(TEST, "counts", "bytecodes", 100.0, 200.0, (part,))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {
        "distributed/scheduler.py": NEW,
        "tests/test_x.py": "\n\n@mark\ndef test_tasks():\n    pass\n",
        ".venv/lib/python3.12/site-packages/elsewhere/module.py": NEW,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def placed(checkout: Path, *remarks: Remark, working: str = "") -> list[tuple[str, int, int]]:
    found = annotations_of(remarks, checkout, checkout / working)
    return [(each.file, each.first, each.last) for each in found]


def test_a_regression_is_marked_at_the_lines_that_explain_it(checkout: Path) -> None:
    why = explanation(str(checkout / "distributed" / "scheduler.py"))
    (remark,) = remarks_of([regressed()], [why])
    assert remark.verdict is Verdict.FAIL
    assert "is called as before (1 per task), 100 bytecodes more per call" in remark.text
    assert placed(checkout, remark) == [("distributed/scheduler.py", 3, 4)]


def test_a_function_without_known_lines_is_marked_where_it_is_defined(checkout: Path) -> None:
    (remark,) = remarks_of([regressed()], [explanation("", with_source=False)])
    assert placed(checkout, remark) == [("distributed/scheduler.py", 2, 2)]
    installed = replace(
        remark, file="/elsewhere/site-packages/distributed/scheduler.py", first=3, last=4
    )
    assert placed(checkout, installed) == [("distributed/scheduler.py", 2, 2)]


def test_a_regression_that_nothing_explains_is_marked_at_what_regressed(checkout: Path) -> None:
    (remark,) = remarks_of([regressed()], [])
    assert remark.text.startswith(f"regressed: bytecodes of {FUNCTION}: 100 before, 200 now")
    assert placed(checkout, remark) == [("distributed/scheduler.py", 2, 2)]


def test_a_function_of_another_project_is_marked_once_at_the_test(checkout: Path) -> None:
    inside = checkout / ".venv/lib/python3.12/site-packages/elsewhere/module.py"
    remark = Remark(
        Verdict.FAIL, TEST, "text", "elsewhere.module:SchedulerState._transition", str(inside), 3, 4
    )
    others = replace(remark, function="elsewhere.module:other")
    limit = Remark(Verdict.FAIL, TEST, "a limit on the whole")
    assert placed(checkout, remark, others, limit) == [("tests/test_x.py", 3, 3)] * 2


def test_tests_are_found_from_the_directory_in_which_they_ran(checkout: Path) -> None:
    test = Remark(Verdict.FAIL, "test_x.py::test_tasks[1-a::b]", "text")
    assert placed(checkout, test, working="tests") == [("tests/test_x.py", 3, 3)]
    root = replace(test, test_id="tests/test_x.py::test_gone")
    assert placed(checkout, root, working="tests") == [("tests/test_x.py", 1, 1)]
    none = replace(test, test_id="../../etc/passwd::test_gone")
    assert placed(checkout, none) == [("../../etc/passwd", 1, 1)]


def test_limits_and_troubles_are_told_after_failures() -> None:
    limits = tuple(
        LimitResult(f"calls <= {n}", verdict, (), "no samples", parsed=parse_limit(f"calls <= {n}"))
        for n, verdict in enumerate(Verdict)
    )
    limited = replace(counted({FUNCTION: 1.0}), limits=limits)
    found = replace(measured(limited), troubles=("py-spy died",))
    remarks = remarks_of([found, regressed("test_b.py::test_b")], [])
    assert [each.verdict.value for each in remarks] == ["fail"] * 2 + ["inconclusive"] * 2
    assert remarks[-1].text == "py-spy died"


def test_single_undecided_figures_are_no_remarks() -> None:
    before = measured(counted({FUNCTION: 100.0}, {FUNCTION: 140.0}, {FUNCTION: 100.0}))
    after = measured(counted({FUNCTION: 120.0}, {FUNCTION: 190.0}, {FUNCTION: 100.0}))
    (comparison,) = compare([before], [after], names=("main", "now")).comparisons
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert remarks_of([replace(after, comparisons=(comparison,))], []) == []


def annotation(text: str = "text", test: str = TEST, verdict: Verdict = Verdict.FAIL) -> Annotation:
    return Annotation(Remark(verdict, test, text), "a.py", 3, 4)


def test_commands_are_those_that_github_reads() -> None:
    doubt = annotation(verdict=Verdict.INCONCLUSIVE, test="t")
    assert list(as_commands([doubt, annotation("100% more\nof it", "a.py::t[x,y]")])) == [
        "::error file=a.py,line=3,endLine=4,title=Scheduler performance%2C a.py%3A%3At[x%2Cy]::"
        "100%25 more%0Aof it",
        "::warning file=a.py,line=3,endLine=4,title=Scheduler performance%2C t::text",
    ]


def test_no_name_can_begin_a_command_or_add_a_property() -> None:
    evil = "x\r\n::set-env name=PATH::/evil\x1b[2J,line=9::\u2028::error::"
    (line,) = as_commands([annotation(evil, evil)])
    assert len(line.splitlines()) == 1
    assert re.fullmatch(r"::error file=a\.py,line=3,endLine=4,title=[^:,]*::.*", line)
    assert line.isprintable()


def test_more_than_github_shows_are_counted() -> None:
    lines = list(as_commands([annotation(str(number)) for number in range(MOST + 3)]))
    assert len(lines) == MOST + 1
    assert lines[-1] == command("notice", "3 more errors: see the summary")


SOURCE = """
import functools

def plain(a):
    return a

class Outer:
    @functools.cache
    def method(self):
        def inner():
            return 1
        return inner

    class Inner:
        async def method(self):
            pass

if plain:
    def twice(): pass
else:
    def twice(): pass
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("plain", 4),
        ("Outer.method", 8),
        ("Outer.method.<locals>.inner", 10),
        ("Outer.Inner.method", 15),
        ("twice", 19),
    ],
)
@pytest.mark.parametrize("file", ["a/b.py", "a/b/__init__.py", "src/a/b.py", "src/a/b/__init__.py"])
def test_functions_are_found_by_their_qualified_names(
    tmp_path: Path, file: str, name: str, line: int
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(SOURCE)
    (tmp_path / "test_x.py").write_text("def broken(:")
    remark = Remark(Verdict.FAIL, "test_x.py::test", "text", f"a.b:{name}")
    assert placed(tmp_path, remark) == [(file, line, line)]
    absent = replace(remark, function="a.b:absent")
    assert placed(tmp_path, absent) == [("test_x.py", 1, 1)]
