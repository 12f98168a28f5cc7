"""Tests of the kind `report`: it has the source of the test."""

from __future__ import annotations

import doctest
import functools
import html
import runpy
from contextlib import ExitStack
from pathlib import Path

import pytest
from bokeh_pages import texts_of
from support import Project

from pytest_schedprof.evidence.report import calling_code, source_of

BODY = """
@pytest.mark.parametrize("text", ["<b>"])
def test_it(schedprof_scheduler, text):
    # bold < plain & so on
    wait(schedprof_scheduler.client.submit(inc, 1))

class TestClass:
    @pytest.mark.parametrize("number", [1])
    def test_method(self, schedprof_scheduler, number):
        pass

exec("def test_made(schedprof_scheduler):\\n    pass")
"""


def code_in(project: Project, test: str) -> list[str]:
    (page,) = project.run_directory.glob(f"tests/*{test}*/report.html")
    (summary,) = [text for text in texts_of(page) if "<h2> Calling Code </h2>" in text]
    code = summary.partition("<pre>")[2].partition("</pre>")[0]
    assert "<" not in code
    return html.unescape(code).strip().splitlines()


@pytest.mark.slow
def test_the_report_has_the_source_of_the_test(project: Project) -> None:
    options = ("--schedprof=cputime", "--schedprof-cluster=simulated", "--schedprof-workers=1")
    project.run_test(BODY, *options, "--schedprof-evidence=report").assert_outcomes(passed=3)
    assert code_in(project, "test_it-b") == [
        "test_it.py::test_it[<b>]",
        "",
        '@pytest.mark.parametrize("text", ["<b>"])',
        "def test_it(schedprof_scheduler, text):",
        "    # bold < plain & so on",
        "    wait(schedprof_scheduler.client.submit(inc, 1))",
    ]
    assert code_in(project, "test_method")[2:4] == [
        '@pytest.mark.parametrize("number", [1])',
        "def test_method(self, schedprof_scheduler, number):",
    ]
    assert code_in(project, "test_made") == ["test_it.py::test_made"]
    assert not any(
        kind.missing for result in project.results().values() for kind in result.evidence
    )


def test_what_has_no_source_gives_none() -> None:
    example = doctest.DocTestParser().get_doctest(">>> 1\n1", {}, "name", "none.py", 0)
    for thing in (None, example, 5, len, functools.partial(len)):
        assert source_of(thing) == ""


class Asking:
    """A context manager whose value is the source of the code that enters it."""

    def __enter__(self) -> str:
        return source_of(calling_code())

    def __exit__(self, *error: object) -> None:
        pass


def test_calling_code_is_that_of_the_caller(tmp_path: Path) -> None:
    with Asking() as directly, ExitStack() as stack:
        indirectly = stack.enter_context(Asking())
    assert directly.startswith("def test_calling_code_is_that_of_the_caller(tmp_path")
    assert indirectly == directly
    script = tmp_path / "script.py"
    script.write_text("x = 1\n\nwith Asking() as source:\n    y = 2\n")
    names = runpy.run_path(str(script), {"Asking": Asking})
    assert names["source"] == script.read_text()
