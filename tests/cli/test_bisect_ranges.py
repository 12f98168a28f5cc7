"""Tests of `schedprof bisect --commits` on a repository of 64 commits, and of its bad input."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from support import HEADER, Project, wait_for

COMMITS = 64
SLOW = 41
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


def content(number: int, broken: int = -1) -> dict[str, str]:
    """The files of a commit: most commits touch only a line that does not matter."""
    steps = 40 if number >= SLOW else 10
    flaw = "import nothing_of_that_name" if number == broken else ""
    return {
        "policy/__init__.py": "",
        "policy/plugin.py": PLUGIN,
        "policy/choice.py": CHOICE.format(flaw=flaw, number=number, steps=steps),
    }


RANGE = ("--commits", f"c0..c{COMMITS - 1}", "--checkout", "checkout", "test_tasks.py", *FEW)


def bisect(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BISECT, *arguments], cwd=project.path, capture_output=True, text=True, check=False
    )


@contextmanager
def bisecting(project: Project, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*BISECT, *arguments], cwd=project.path, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def measured(project: Project) -> int:
    """The number of commits in the only journal."""
    return sum(
        len(file.read_text().splitlines())
        for file in project.path.glob(".schedprof/bisect/*/journal.jsonl")
    )


def is_measuring(project: Project, after: int) -> bool:
    """Whether a session has begun after so many that ended."""
    sessions = list(project.path.glob(".schedprof/bisect/*/results/*/2*"))
    return measured(project) == after and len(sessions) > after


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_commit_is_found_with_the_one_before_it(project: Project) -> None:
    (project.path / "test_tasks.py").write_text(TEST)
    checkout = Checkout(project.path / "checkout", content, COMMITS)
    (checkout.path / "policy" / "plugin.py").write_text("what the user is at work on")
    found = bisect(project, *RANGE)
    assert found.returncode == 0, found.stderr
    assert f"commit {SLOW}\n  by us on 2" in found.stdout
    assert "policy.choice:choose" in found.stdout
    assert "100% of the change between both ends" in found.stdout
    assert "4 runs of the test for 64 commits" in found.stdout, "both ends, and the two that decide"
    assert len(checkout.worktrees) == 1
    assert checkout.git("status", "--porcelain").strip() == "M policy/plugin.py"
    again = bisect(project, *RANGE)
    assert again.stdout == found.stdout.replace("4 runs", "0 runs")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_search_goes_on_and_tells_a_range_if_commits_are_skipped(project: Project) -> None:
    (project.path / "test_tasks.py").write_text(TEST)
    files = partial(content, broken=SLOW - 1)
    checkout = Checkout(project.path / "checkout", files, COMMITS)
    with bisecting(project, *RANGE) as process:
        wait_for(lambda: is_measuring(project, after=2), "the third commit", timeout_s=100)
        process.kill()
    assert len(checkout.worktrees) == 2
    wait_for(lambda: not project.processes(), "the session to end with the search")
    found = bisect(project, *RANGE)
    assert found.returncode == 0, found.stderr
    assert "the first bad commit is one of 2; all but the last were skipped:" in found.stdout
    assert f"commit {SLOW - 1}\n" in found.stdout
    assert f"commit {SLOW}\n" in found.stdout
    assert "skip, pytest exited with 1: ModuleNotFoundError" in found.stderr
    assert "3 runs of the test" in found.stdout
    assert len(checkout.worktrees) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_neither_worktree_nor_process(
    project: Project, number: signal.Signals
) -> None:
    (project.path / "test_tasks.py").write_text(TEST)
    checkout = Checkout(project.path / "checkout", content, 2)
    with bisecting(project, "--commits", "c0..c1", "--checkout", "checkout", "test_tasks.py") as it:
        wait_for(lambda: is_measuring(project, after=0), "a session", timeout_s=60)
        it.send_signal(number)
        assert it.stderr is not None
        assert "the same command goes on where this one stopped" in it.stderr.read()
        assert it.wait() == 130
    assert project.processes() == []
    assert len(checkout.worktrees) == 1
    assert measured(project) == 0


CHECKOUT = ("--checkout", "checkout")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--commits", "c0..nowhere", *CHECKOUT, "test_it.py"), "'nowhere' is no commit of"),
        (("--commits", "c0..--all", *CHECKOUT, "test_it.py"), "'--all' is no commit of"),
        (("--commits", "c0...c1", *CHECKOUT, "test_it.py"), "must be GOOD..BAD, got 'c0...c1'"),
        (("--commits", "c0", *CHECKOUT, "test_it.py"), "must be GOOD..BAD, got 'c0'"),
        (("--commits", "c0..c0", *CHECKOUT, "test_it.py"), "there is no commit in 'c0..c0'"),
        (("--commits", "c1..c0", *CHECKOUT, "test_it.py"), "exchange them, or give their merge"),
        (("--commits", "c0..c1", "--checkout", "nowhere", "test_it.py"), "no directory 'nowhere'"),
        (("--commits", "c0..c1", "--checkout", ".", "test_it.py"), "'.' is no checkout of git"),
        (("--commits", "c0..c1", *CHECKOUT, "absent.py"), "there is no test file 'absent.py'"),
        (("--commits", "c0..c1", *CHECKOUT, "test_it.py"), "has packages one, two; name the one"),
        (
            ("--commits", "c0..c1", *CHECKOUT, "test_it.py", "--metric", "speed"),
            "there is no metric 'speed'; --metric is one of",
        ),
        (("--releases", "new..old", "test_it.py"), "--releases must be FIRST..LAST"),
        (("--releases", "2026.8.0", "test_it.py"), "must name two releases at least"),
        (("--releases", "2026.8.0..2025.5.0", "test_it.py"), "the earlier release first"),
        (("--releases", "1..2", "--package", "a b", "test_it.py"), "must be a package's name"),
        (("test_it.py",), "nothing to run: give a pytest command after --, or a range"),
    ],
)
def test_what_cannot_be_searched_is_told(
    project: Project, arguments: tuple[str, ...], words: str
) -> None:
    project.write("def test_it(): pass\n")
    packages = {"one/__init__.py": "", "two/__init__.py": ""}
    Checkout(project.path / "checkout", lambda number: {**packages, "number": str(number)}, 2)
    told = bisect(project, *arguments)
    assert (told.returncode, told.stdout) == (2, "")
    (line,) = told.stderr.splitlines()
    assert line.startswith("schedprof: ")
    assert words in line
    assert not (project.path / ".schedprof").exists()


def test_without_git_the_message_says_so(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("def test_it(): pass\n")
    monkeypatch.setenv("PATH", str(project.path))
    told = bisect(project, "--commits", "a..b", "test_it.py")
    assert told.returncode == 2
    assert told.stderr == "schedprof: git is not here, and --commits needs it\n"
