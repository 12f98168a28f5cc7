"""Tests of pytest-xdist: each worker has its own scheduler, and the results form one run."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from support import BURNED, Project

BODY = f"""
KEPT = pytest.mark.schedprof("share(distributed.stealing:*) <= 50%")
BROKEN = pytest.mark.schedprof("share({BURNED}) <= 10%")

@pytest.mark.parametrize("number", [pytest.param(n, marks=[KEPT, BROKEN][n % 2]) for n in range(2)])
def test_it(schedprof_scheduler, number):
    burn(schedprof_scheduler, 0.4)
    with open("pids", "a") as file:
        file.write(f"{{schedprof_scheduler.pid}}\\n")
"""

SAMPLED = ("--schedprof=cputime", "--schedprof-rate=200", "--schedprof-workers=1")


@pytest.mark.slow
def test_same_verdicts_in_one_run_with_a_scheduler_for_each_worker(project: Project) -> None:
    """Each worker runs each test, and keeps its own copy of it."""
    each = ("--dist=each", "--tx=2*popen")
    result = project.run_test(BODY, *SAMPLED, *each, "--junitxml=junit.xml")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["test_it.py::test_it* *", "limits: 2 passed, 2 broken", "artifacts of 4 profiled tests: *"]
    )
    assert len(set((project.path / "pids").read_text().split())) == 2
    result.stdout.no_fnmatch_line("no page of the run*")
    assert len(list(project.run_directory.glob("tests/*/index.html"))) == 4
    record = project.run_record()
    assert sorted(entry.verdict.value for entry in record.tests) == ["fail", "fail", "pass", "pass"]
    assert len({entry.directory for entry in record.tests}) == 4
    suite = ElementTree.parse(project.path / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("2", "0")
    names = [node.get("name") for node in suite.iter("property")]
    assert names.count("schedprof_verdict") == names.count("schedprof_limit") == 4
    assert "limits: 2 passed, 2 broken; 4 profiled tests" in (
        project.run_directory / "summary.md"
    ).read_text(encoding="utf-8")
