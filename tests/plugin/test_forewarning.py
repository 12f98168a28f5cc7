"""Tests of what is told in the middle of a session: a rate that py-spy cannot keep up with."""

from __future__ import annotations

import re

import pytest
from support import Project

BODY = """
import sys

@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.schedprof(backend="pyspy", cluster="simulated", workers=2)
def test_it(schedprof_scheduler, number):
    print("the body began", file=sys.__stderr__, flush=True)
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

TOLD = re.compile(
    r"^schedprof: py-spy takes about (\d+) of 100000 samples per second here while the scheduler "
    r"is busy; set rate=(\d+) in the marker if that sets the rate, else --schedprof-rate=\1$",
    re.MULTILINE,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apart")]
# Each in a process of its own: what was measured is known until the process ends.


def test_too_high_a_rate_is_told_once_and_before_the_first_test_has_ended(project: Project) -> None:
    body = BODY.replace("NUMBERS", "[1, 2]")
    result = project.run_test(body, "--schedprof-rate=100000", "-v")
    result.assert_outcomes(passed=2)
    text = result.stdout.str()
    (line,) = TOLD.finditer(text)
    assert line[1] == line[2]
    assert 1 <= int(line[1]) < 50_000
    assert text.index("test_it.py::test_it[1]") < line.start() < text.index("PASSED")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [(["-p", "no:terminal"], 0), (["-n", "1"], 0), (["-s"], 1), (["-p", "no:capture"], 1)],
)
def test_no_session_is_the_worse_for_it(project: Project, arguments: list[str], lines: int) -> None:
    project.plugins = ("xdist",)
    body = BODY.replace("NUMBERS", "[1]")
    result = project.run_test(body, "--schedprof-rate=100000", *arguments)
    assert result.ret == 0
    assert len(TOLD.findall(result.stdout.str())) == lines
