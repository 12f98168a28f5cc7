"""Tests of `schedprof report` and a session's pages, where something is missing or in the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Project

from pytest_schedprof.cli.main import main

TASKS = """
@pytest.mark.schedprof(backend="counts")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(50)))
"""

IN_THE_WAY = """
import pathlib, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    (run,) = pathlib.Path(".schedprof").glob("2*")
    (run / "index.html").mkdir()
"""


def test_a_page_that_cannot_be_written_is_told_in_a_line_and_fails_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.path / "conftest.py").write_text(IN_THE_WAY)
    result = project.run_test(TASKS)
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["no page of the run: cannot write '*index.html': Is a directory*"])
    (project.run_directory / "index.html").rmdir()
    capsys.readouterr()
    assert main(["report", str(project.path / ".schedprof" / "latest")]) == 0
    assert capsys.readouterr().out == f"{project.run_directory / 'index.html'}\n"
    (result_file,) = project.run_directory.glob("tests/*/result.json")
    result_file.write_text("{")
    assert main(["report", str(project.run_directory)]) == 0
    assert "no page: " in (project.run_directory / "index.html").read_text()
    assert (
        main(["report", str(project.run_directory), "--against", str(project.run_directory)]) == 2
    )
    assert "have no test in common" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "{", '{"schema_version": 99}'])
def test_what_is_no_run_is_told(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    assert main(["report", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("schedprof: ")
    assert str(tmp_path) in line
