"""Tests of what is told in the middle of a session: a test's progress, on a real terminal only, and
a rate that py-spy cannot keep up with.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest
from support import ALONE, AUTOLOAD, Project

from pytest_schedprof.report.results import Progress, progress_text

BODY = """
def test_before():
    pass

@pytest.mark.schedprof(backend="counts", rounds=2, cluster="simulated", workers=2)
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
    print("kept")
    assert False

def test_after():
    pass
"""

LONG = """
@pytest.mark.schedprof(backend="counts", cluster="simulated", workers=2)
def test_long(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
    time.sleep(1)  # as long as the line waits five times
"""

BESIDE = re.compile("\n\x1b\\[A\x1b\\[[0-9]+G(?=\x1b7)|\x1b7\x1b\\[B\r(.*?)\x1b\\[K\x1b8")
"""Matches text written on the line below the current one."""


def on_terminal(project: Project, *arguments: str) -> str:
    """Return what a session writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, AUTOLOAD: "1", "TERM": "xterm", "PY_COLORS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *ALONE, *arguments],
        cwd=project.path,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        written = b"".join(iter(lambda: read(ours), b""))
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 2**16)
    except OSError:  # all writers have closed it
        return b""


def beside(text: str) -> list[str]:
    """Return what was written below the current line."""
    return [match[1] for match in BESIDE.finditer(text) if match[1] is not None]


@pytest.mark.slow
def test_it_is_below_the_dots_between_runs_and_leaves_nothing(project: Project) -> None:
    """Of several runs it says how long they still take, and of a long one how long it lasts."""
    sooner = "from pytest_schedprof.plugin import progress\nprogress.UPDATE_S = 0.2\n"
    (project.path / "conftest.py").write_text(sooner)
    project.write(BODY.replace("    assert False\n", "") + LONG)
    text = on_terminal(project)
    # Without those of runs that last, which a quick machine may not have.
    lines = [line for line in beside(text) if ", this run" not in line]
    assert lines[0] == "schedprof: run 1 of 2, 0 tasks done"
    assert re.fullmatch("schedprof: run 2 of 2, about [0-9]+ s left, 20 tasks done", lines[1])
    assert lines[2] == lines[-1] == ""
    lasting = lines[3:-1]
    assert lasting
    assert all(re.fullmatch(r"schedprof: recording for [0-9]+ s", line) for line in lasting)
    rest = re.sub("\x1b\\[[0-9;]*m", "", BESIDE.sub("", text))
    assert "test_it.py ...." in rest
    assert "schedprof: run" not in rest


LOCAL = """
import dask

@pytest.mark.schedprof(backend="cputime", evidence="local")
def test_it():
    dask.delayed(inc)(dask.delayed(inc)(1)).compute(scheduler="threads", optimize_graph=False)
    print("kept")
"""


@pytest.mark.slow
def test_dasks_bar_is_there_too_for_local_schedulers(project: Project) -> None:
    project.write(LOCAL)
    text = on_terminal(project, "-v")
    lines = beside(text)
    assert re.fullmatch(r"\[#{40}\] \| 100% Completed \| .* [mu]?s", lines[-2])
    assert lines[-1] == ""
    rest = re.sub("\x1b\\[[0-9;]*m", "", BESIDE.sub("", text))
    assert re.search(r"test_it.py::test_it PASSED +\[100%\]", rest)
    assert "kept" not in rest
    assert "Completed" not in rest


@pytest.mark.slow
@pytest.mark.parametrize("is_terminal", [True, False])
def test_it_is_not_shown_where_others_write_or_nobody_looks(
    project: Project, is_terminal: bool
) -> None:
    project.write(BODY)
    text = on_terminal(project, "-s") if is_terminal else project.run("--color=yes").stdout.str()
    assert "kept" in text
    assert "schedprof: run" not in text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(0, 3, 0, 1.0, 60.0), "run 1 of 3, 0 tasks done"),
        (Progress(2, 3, 4000, 10.0, 60.0), "run 3 of 3, about 5 s left, 4,000 tasks done"),
        (Progress(0, 3, 9, 1.0, 60.0, side="a:b=c"), "run 1 of 3 with a:b=c, 9 tasks done"),
        (Progress(9, 0, 9000, 31.0, 60.0), "run 10, 31 s of at most 60 s, 9,000 tasks done"),
        (
            Progress(2, 3, 4000, 10.0, 60.0, lasts_s=4.2),
            "run 3 of 3, about 1 s left, 4,000 tasks done, this run has taken 4 s so far",
        ),
        (Progress(0, 1, 0, 1.0, 60.0, lasts_s=4.2), "recording for 4 s"),
    ],
)
def test_what_it_says(progress: Progress, text: str) -> None:
    assert progress_text(progress) == f"schedprof: {text}"


def test_of_a_run_that_just_begins_there_is_nothing_to_say() -> None:
    assert progress_text(Progress(0, 1, 0, 0.0, 60.0)) == ""
