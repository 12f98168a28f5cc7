"""Tests of `schedprof bisect`: under a real `git bisect run`, and with releases of the index.

`tests/pure/test_bisecting_releases.py` has the search itself.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import distributed
import injection
import pytest
from measured import TRANSITION, counted, measured
from support import HEADER, QUICK, Project, python

from pytest_schedprof.cli import bisect as bisect_command
from pytest_schedprof.cli.main import main
from pytest_schedprof.store.baselines import save

TEST = f"""{HEADER}
from change import STATEMENT
from injection import plant

@pytest.fixture
def changed(schedprof_scheduler):
    if STATEMENT:
        schedprof_scheduler.client.run_on_scheduler(
            plant,
            module="distributed.scheduler",
            qualname="SchedulerState._transition",
            statement=STATEMENT,
        )

def test_tasks(schedprof_scheduler, changed):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

FAST, SLOW, BROKEN = "STATEMENT = ''", "STATEMENT = '_ = None; ' * 20", "STATEMENT ="
COMMITS = [FAST, FAST, BROKEN, FAST, SLOW, SLOW]
# The broken commit is in the middle, which git tries first.
FIRST_SLOW = COMMITS.index(SLOW)

MEASURE = [
    *(sys.executable, "-m", "pytest", "--schedprof=counts"),
    *("--schedprof-cluster=virtual", "--schedprof-workers=2", "--schedprof-rounds=1"),
]
BISECT = [sys.executable, "-m", "pytest_schedprof", "bisect"]


class Repository:
    """A repository of a few commits; from one of them on, the scheduler does more work per task."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copy(injection.__file__, path)
        (path / "test_tasks.py").write_text(TEST)
        (path / ".gitignore").write_text(".schedprof\n__pycache__\n")
        self.git("init", "--quiet")
        for number, change in enumerate(COMMITS):
            (path / "change.py").write_text(f"{change}\nNUMBER = {number}\n")
            self.git("add", ".")
            self.git("commit", "--quiet", "-m", f"commit {number}")
            self.git("tag", f"commit-{number}")

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run git; return its output and exit status."""
        us = ("-c", "user.name=us", "-c", "user.email=us@example.org", "-c", "commit.gpgsign=no")
        return self.run("git", *us, *arguments)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_git_finds_the_commit_that_made_the_scheduler_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**QUICK, "PYTHONHASHSEED": "0"}.items():
        monkeypatch.setenv(name, value)
    repository = Repository(tmp_path)
    repository.git("bisect", "start", f"commit-{len(COMMITS) - 1}", "commit-0")

    mistaken = repository.git("bisect", "run", *BISECT, "good", "--", *MEASURE)
    assert mistaken.returncode != 0, "a baseline that is missing stops git"
    assert "there is no '.schedprof/baselines/good'" in mistaken.stderr

    repository.git("checkout", "--quiet", "commit-0")
    assert repository.run(*MEASURE, "--schedprof-save=good").returncode == 0
    done = repository.git("bisect", "run", *BISECT, "good", "--", *MEASURE)
    assert done.returncode == 0, done.stdout + done.stderr
    # The broken commit is neither good nor bad.
    assert "gave no results: skip this commit" in done.stdout
    assert repository.git("log", "-1", "--format=%s", "refs/bisect/bad").stdout == (
        f"commit {FIRST_SLOW}\n"
    )
    kept = {path.name for path in (tmp_path / ".schedprof").iterdir() if path.is_dir()}
    assert len([name for name in kept if name.startswith("2")]) == 1, "the baseline's run alone"


TASKS = """
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

FUNCTION = "dask._task_spec:_is_dask_future"
"""What graph intake asks of each task from 2026.1.1 on."""


def bisect(
    project: Project, releases: str, *arguments: str, body: str = TASKS, status: int = 0
) -> subprocess.CompletedProcess[str]:
    project.write(body)
    command = ["-m", "pytest_schedprof", "bisect", f"--releases={releases}", *arguments]
    command += ["test_it.py", "--", "--schedprof-workers=2", "--schedprof-rounds=1"]
    return python(*command, cwd=project.path, status=status, **QUICK)


@pytest.mark.slow
def test_the_release_is_found_and_one_that_is_none_is_skipped(project: Project) -> None:
    done = bisect(project, "2026.1.0,2026.1.0.1,2026.1.1", f"--function={FUNCTION}")
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
    done = bisect(project, "2026.1.0,2026.1.1", status=2)
    assert "the test imports distributed" in done.stderr


@pytest.mark.slow
def test_an_end_at_which_the_test_fails_is_told(project: Project) -> None:
    failing = TASKS + "    assert schedprof_scheduler is None\n"
    done = bisect(project, "2026.1.0,2026.1.1", body=failing, status=1)
    assert "schedprof: with 2026.1.0 pytest exited with 1: " in done.stderr
    assert "assert " in done.stderr
    assert "this is an end of the range: choose another one" in done.stderr


def test_options_without_dashes_before_them_blame_no_commit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bisect", "good", "pytest", "--schedprof=counts"]) == 128
    assert "unrecognized arguments: --schedprof=counts" in capsys.readouterr().err


def test_an_option_that_does_not_exist_is_a_mistake_of_a_search_over_releases() -> None:
    with pytest.raises(SystemExit) as end:
        main(["bisect", "--releases=2026.7.0,2026.8.0", "--no-such-option", "test_it.py"])
    assert end.value.code == 2


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = str(tmp_path / "good.json")
    save(file, "", "run-1", [measured(counted({TRANSITION: 1.0}))])
    return file


def test_a_temporary_directory_of_any_name_is_one_option(
    good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / 'our "place", it\'s'
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    say = "import os, shlex; print(shlex.split(os.environ['PYTEST_ADDOPTS']))"
    assert main(["bisect", good, "--", sys.executable, "-c", say]) == 125
    before, directory, save = ast.literal_eval(capfd.readouterr().out.splitlines()[0])
    assert (before, save) == ("-x", "--schedprof-save=measured")
    assert directory.startswith(f"--schedprof-dir={place}/")


def test_an_error_that_nobody_expects_blames_no_commit(
    good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bisect_command, "load_both", [].__getitem__)
    assert main(["bisect", good, "--", sys.executable, "-c", ""]) == 128
    assert "unexpected TypeError" in capsys.readouterr().err


def test_without_an_index_releases_can_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert main(["bisect", "--releases=2025.5.0..2026.1.1", "test_it.py"]) == 1
    output = capsys.readouterr().err
    assert "the package index does not tell the releases of 'distributed'" in output
    assert "name them yourself: --releases=A,B,C" in output
