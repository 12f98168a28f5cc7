"""Tests of `--schedprof-keep` in sessions."""

from __future__ import annotations

import pytest
from support import Project

from pytest_schedprof.cli.main import main

TESTS = """
@pytest.mark.schedprof("calls(@transitions) <= 1000")
def test_good(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

@pytest.mark.schedprof("calls(@transitions) <= 0.001")
def test_broken(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

@pytest.mark.schedprof("calls(@transitions) <= 1000", keep="all")
def test_kept(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

SESSION = ("--schedprof=counts,viztracer", "--schedprof-cluster=simulated", "--schedprof-workers=2")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_recordings_of_tests_that_are_as_they_were_are_bounded(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.run_test(TESTS, *SESSION, "--schedprof-keep=60kB").assert_outcomes(passed=2, failed=1)
    files = {
        name: {backend.backend: bool(backend.artifacts) for backend in result.backends}
        for name, result in project.results().items()
    }
    assert files["test_broken"] == files["test_kept"] == {"counts": True, "viztracer": True}
    assert files["test_good"] == {"counts": True, "viztracer": False}
    (trace,) = [of for of in project.results()["test_good"].backends if of.left_out]
    assert trace.backend == "viztracer"
    assert trace.left_out > 60_000
    assert len(list(project.path.rglob("*.viztracer.json.gz"))) == 2
    capsys.readouterr()

    runs = str(project.path / ".schedprof")
    assert main(["show", "test_good", runs]) == 0
    assert "viztracer: recordings of " in capsys.readouterr().out
    assert main(["export", "test_good", runs, "--format=chrometrace"]) == 1
    said = capsys.readouterr().err
    assert "recordings of viztracer were not kept, by --schedprof-keep" in said
    assert main(["export", "test_kept", runs, "--format=chrometrace", "-o", "/dev/null"]) == 0
    assert main(["report", runs]) == 0
