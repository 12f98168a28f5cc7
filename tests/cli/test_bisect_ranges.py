"""Tests of `schedprof bisect --commits` on a repository of 64 commits, and of its bad input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import HEADER, Project

COMMITS = 64
SLOW = 41
BROKEN = 30
"""A commit that does not import."""

CHOICE = """
NUMBER = {number}
{flaw}

def choose(key):
    total = 0
    for each in range({steps}):
        total += each
    return total
"""

PLUGIN = """
from distributed.diagnostics.plugin import SchedulerPlugin
from policy.choice import choose

class Policy(SchedulerPlugin):
    def transition(self, key, start, finish, *args, **kwargs):
        choose(key)
"""

TEST = f"""{HEADER}
@pytest.fixture
def policy(schedprof_scheduler):
    def add(dask_scheduler):
        from policy.plugin import Policy
        dask_scheduler.add_plugin(Policy())
    schedprof_scheduler.client.run_on_scheduler(add)

def test_tasks(schedprof_scheduler, policy):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

BISECT = [sys.executable, "-m", "pytest_schedprof", "bisect"]
US = ("-c", "user.name=us", "-c", "user.email=us@example.org", "-c", "commit.gpgsign=no")

FEW = ("--", "--schedprof-workers=2")


class Checkout:
    """A repository of a package that the scheduler loads; tags name its commits."""

    def __init__(self, path: Path, content: Callable[[int], dict[str, str]], count: int) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        for number in range(count):
            for name, text in content(number).items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_text(text)
            self.git("add", ".")
            self.git("commit", "--quiet", "-m", f"commit {number}")
            self.git("tag", f"c{number}")

    def git(self, *arguments: str) -> str:
        command = ["git", *US, *arguments]
        return subprocess.run(
            command, cwd=self.path, check=True, capture_output=True, text=True
        ).stdout

    @property
    def worktrees(self) -> list[str]:
        return self.git("worktree", "list", "--porcelain").split("\n\n")[:-1]


def content(number: int) -> dict[str, str]:
    """The files of a commit: most commits touch only a line that does not matter."""
    steps = 40 if number >= SLOW else 10
    flaw = "import nothing_of_that_name" if number == BROKEN else ""
    return {
        "policy/__init__.py": "",
        "policy/plugin.py": PLUGIN,
        "policy/choice.py": CHOICE.format(flaw=flaw, number=number, steps=steps),
    }


@pytest.fixture
def checkout(project: Project) -> Checkout:
    (project.path / "test_tasks.py").write_text(TEST)
    return Checkout(project.path / "checkout", content, COMMITS)


def bisect(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BISECT, *arguments], cwd=project.path, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_commit_is_found_with_the_one_before_it(project: Project, checkout: Checkout) -> None:
    (checkout.path / "policy" / "plugin.py").write_text("what the user is at work on")
    asked = ("--commits", f"c0..c{COMMITS - 1}", "--checkout", "checkout", "test_tasks.py", *FEW)
    found = bisect(project, *asked)
    assert found.returncode == 0, found.stderr
    assert f"commit {SLOW}\n  by us on 2" in found.stdout
    assert "policy.choice:choose" in found.stdout
    assert "100% of the change between both ends" in found.stdout
    assert "4 runs of the test for 64 commits" in found.stdout, "both ends, and the two that decide"
    assert len(checkout.worktrees) == 1
    assert checkout.git("status", "--porcelain").strip() == "M policy/plugin.py"
    again = bisect(project, *asked)
    assert again.stdout == found.stdout.replace("4 runs", "0 runs")
