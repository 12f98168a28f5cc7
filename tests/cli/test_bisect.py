"""Tests of `schedprof bisect` under a real `git bisect run`, which finds the slow commit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import injection
import pytest
from support import HEADER, QUICK

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

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
    *("--schedprof-cluster=simulated", "--schedprof-workers=2"),
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


def test_git_finds_the_commit_that_made_the_scheduler_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in QUICK.items():
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
