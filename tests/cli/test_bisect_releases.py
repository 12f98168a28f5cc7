"""Tests of `schedprof bisect --releases` with real releases from the package index."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import Project

FIRST_BAD = "2026.1.1"
"""The release from which on graph intake asks each task whether it is a future of dask."""

BODY = """
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(100), pure=False))
"""


def bisect(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    project.write(BODY)
    command = [sys.executable, "-m", "pytest_schedprof", "bisect", *arguments]
    return subprocess.run(
        command, cwd=project.path, capture_output=True, text=True, check=False, timeout=380
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_release_is_found_and_one_that_is_none_is_skipped(project: Project) -> None:
    releases = "--releases=2026.1.0,2026.1.0.1,2026.1.1,2026.1.3"
    function = "--function=dask._task_spec:_is_dask_future"
    found = bisect(project, releases, function, "test_it.py", "--", "--schedprof-workers=2")
    assert found.returncode == 0, found.stderr
    assert f"  distributed {FIRST_BAD}\n" in found.stdout
    assert "  distributed 2026.1.0.1\n" in found.stdout
    assert "distributed 2026.1.0.1: skip, 'distributed==2026.1.0.1' cannot be installed" in (
        found.stderr
    )
    assert "one of 2; all but the last were skipped" in found.stdout


def test_a_release_that_is_not_on_the_index_is_told_with_those_next_to_it(project: Project) -> None:
    told = bisect(project, "--releases=2025.5.2..2026.1.1", "test_it.py")
    assert told.returncode == 2
    assert (
        "distributed has no release 2025.5.2; those next to it are 2025.5.0, 2025.5.1, 2025.7.0"
        in (told.stderr)
    )


def test_without_an_index_releases_can_be_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    told = bisect(project, "--releases=2025.5.0..2026.1.1", "test_it.py")
    assert told.returncode == 1
    assert "the package index does not tell the releases of 'distributed'" in told.stderr
    assert "name them yourself: --releases=A,B,C" in told.stderr
