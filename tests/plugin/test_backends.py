"""Tests of several backends, and of how a run's own choice affects a test's limits and options."""

from __future__ import annotations

import pytest
from support import Project

BODY = """
@pytest.mark.schedprof("share(@comm) <= 99%", options={"native": False}, backend="pyspy")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(50), pure=False))
    print("the body ran")
"""


@pytest.mark.slow
def test_those_that_disturb_have_a_run_of_the_body_for_themselves(project: Project) -> None:
    result = project.run_test(BODY, "--schedprof=counts,cputime,pyspy,cprofile", "-rP")
    result.assert_outcomes(passed=1)
    assert result.stdout.str().count("the body ran") == 3
    backends = {backend.backend: backend for backend in project.result().backends}
    assert set(backends) == {"counts", "cputime", "pyspy", "cprofile"}
    assert {backend.window.tasks for backend in backends.values()} == {50}
    assert backends["pyspy"].window == backends["cputime"].window
    assert backends["counts"].costs is not None
    assert backends["counts"].shares is None


@pytest.mark.slow
def test_the_runs_choice_leaves_limits_that_it_cannot_judge(project: Project) -> None:
    result = project.run_test(BODY, "--schedprof=counts", "--schedprof-strict")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["limits: 1 skipped (needs a backend or baseline that was not chosen)"]
    )
    assert project.result().unjudged == ("share(@comm) <= 99%",)


@pytest.mark.slow
def test_other_targets_leave_files_beside_the_schedulers(project: Project) -> None:
    result = project.run_test(
        """
import time

def spin(number):
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass

@pytest.mark.schedprof("share(*:spin) <= 5%", rate=200,
                       targets=("scheduler", "workers"))
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(spin, range(10), pure=False))
"""
    )
    result.assert_outcomes(passed=1)  # limits apply only to the scheduler, which never spins
    (backend,) = project.result().backends
    (workers,) = backend.targets
    assert backend.artifacts == ("scheduler.pyspy.speedscope.json",)
    assert (workers.target, len(workers.addresses)) == ("worker-0", 4)
    (artifact,) = workers.artifacts
    assert artifact == "worker-0.pyspy.speedscope.json"
    (content,) = (path.read_text() for path in project.run_directory.rglob(artifact))
    assert '"spin"' in content
