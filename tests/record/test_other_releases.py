"""Tests that what one release of distributed recorded can be replayed on another one."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version

from pytest_schedprof.clusters.environments import interpreter_for
from pytest_schedprof.formats.workload import read_workload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

HERE = metadata.version("distributed")
THERE = "2024.8.2" if Version(HERE) >= Version("2025.5") else "2025.5.1"
"""A release whose graphs and messages are others."""

MAKING_S = 120.0
PROGRAM = Path(__file__).with_name("in_release.py")


@pytest.fixture(scope="module")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cache = tmp_path_factory.mktemp("cache")
    there = interpreter_for(f"distributed=={THERE}", cache, MAKING_S)
    return {HERE: sys.executable, THERE: str(there.path)}


def done(interpreter: str, what: str, path: Path) -> tuple[int, float, int]:
    """Record or replay; return transitions, seconds and tasks."""
    command = [interpreter, str(PROGRAM), what, str(path)]
    output = subprocess.check_output(command, text=True, timeout=100)
    transitions, makespan, tasks = json.loads(output.splitlines()[-1])
    return transitions, makespan, tasks


@pytest.mark.parametrize(("recorder", "other"), [(HERE, THERE), (THERE, HERE)])
def test_a_recording_is_replayed_on_another_release(
    interpreters: dict[str, str], tmp_path: Path, recorder: str, other: str
) -> None:
    path = tmp_path / "work.schedprof"
    transitions, makespan, _ = done(interpreters[recorder], "record", path)
    workload = read_workload(path.read_bytes())
    assert workload.distributed == recorder
    replayed = done(interpreters[other], "replay", path)
    assert replayed[2] == sum(1 for _ in workload.tasks())
    assert replayed[0] == pytest.approx(transitions, rel=0.02)
    assert replayed[1] == pytest.approx(makespan, rel=0.1)
