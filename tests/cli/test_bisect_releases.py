"""Tests of `schedprof bisect --releases` with real releases from the package index.

`tests/pure/test_bisecting_releases.py` has the search itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import distributed
import pytest
from support import QUICK, Project

from pytest_schedprof.cli.main import main

BODY = """
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

FUNCTION = "dask._task_spec:_is_dask_future"
"""What graph intake asks of each task from 2026.1.1 on."""


def bisect(project: Project, releases: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    project.write(BODY)
    command = [sys.executable, "-m", "pytest_schedprof", "bisect", f"--releases={releases}"]
    command += [*arguments, "test_it.py", "--", "--schedprof-workers=2", "--schedprof-rounds=1"]
    return subprocess.run(
        command,
        cwd=project.path,
        env={**os.environ, **QUICK},
        capture_output=True,
        text=True,
        check=False,
        timeout=380,
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_release_is_found_and_one_that_is_none_is_skipped(project: Project) -> None:
    done = bisect(project, "2026.1.0,2026.1.0.1,2026.1.1", f"--function={FUNCTION}")
    assert done.returncode == 0, done.stderr
    first, *explained = done.stdout.splitlines()
    assert first == (
        "the first bad release is distributed 2026.1.1, or one of distributed 2026.1.0.1"
    )
    assert "schedprof: 'distributed==2026.1.0.1' cannot be installed: " in done.stderr
    assert "; 2026.1.0.1 is skipped\n" in done.stderr
    assert any(f"`{FUNCTION}` is new, called 2 per task" in line for line in explained)
    assert any("def _is_dask_future(obj" in line for line in explained), "the lines of its source"


@pytest.mark.slow
def test_a_test_that_imports_another_release_ends_the_search(project: Project) -> None:
    (project.path / "conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(Path(distributed.__file__).parents[1])!r})"
    )
    done = bisect(project, "2026.1.0,2026.1.1")
    assert done.returncode == 2
    assert "the test imports distributed" in done.stderr


def test_without_an_index_releases_can_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert main(["bisect", "--releases=2025.5.0..2026.1.1", "test_it.py"]) == 1
    output = capsys.readouterr().err
    assert "the package index does not tell the releases of 'distributed'" in output
    assert "name them yourself: --releases=A,B,C" in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--releases=new..old", "test_it.py"), "--releases must be FIRST..LAST"),
        (("--releases=2026.8.0", "test_it.py"), "--releases must be FIRST..LAST"),
        (("--releases=2026.8.0..2025.5.0", "test_it.py"), "the earliest first"),
        (("--releases=1..2..3", "test_it.py"), "--releases must be FIRST..LAST"),
        (("--releases=1..2", "--package=a b", "test_it.py"), "must be a package's name"),
        (
            ("--releases=2025.5.2..2025.6.1", "test_it.py"),
            "distributed has no two releases in '2025.5.2..2025.6.1'",
        ),
        (("test_it.py",), "nothing to run: give a pytest command after --, or --releases"),
    ],
)
def test_what_cannot_be_searched_is_told(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bisect", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("schedprof: ")
    assert words in line
