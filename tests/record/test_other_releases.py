"""Tests that what one release of distributed recorded can be replayed on another one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest
from in_release import done
from packaging.version import Version

from pytest_schedprof.clusters.environments import interpreter_for
from pytest_schedprof.formats.workload import read_workload

pytestmark = pytest.mark.slow

HERE = metadata.version("distributed")
THERE = "2024.8.2" if Version(HERE) >= Version("2025.5") else "2025.5.1"
"""A release whose graphs and messages are others."""

MAKING_S = 300.0
PROGRAM = Path(__file__).with_name("in_release.py")


def test_recordings_are_replayed_on_another_release_and_back(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    interpreter = interpreter_for(f"distributed=={THERE}", cache, MAKING_S)
    ours, theirs = (str(tmp_path / f"{name}.schedprof") for name in ("ours", "theirs"))
    recorded_here = done("record", ours)
    command = [str(interpreter.path), str(PROGRAM), "replay", ours, "record", theirs]
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[1])}  # for its helpers
    output = subprocess.check_output(command, text=True, timeout=200, env=environment)
    replayed_there, recorded_there = json.loads(output.splitlines()[-1])
    check(ours, HERE, recorded_here, replayed_there)
    check(theirs, THERE, recorded_there, done("replay", theirs))


def check(path: str, release: str, recorded: Sequence[float], replayed: Sequence[float]) -> None:
    """A replay has the tasks of its file and takes what the work took."""
    workload = read_workload(Path(path).read_bytes())
    assert workload.distributed == release
    transitions, makespan, tasks = replayed
    assert tasks == sum(1 for _ in workload.tasks())
    assert transitions == pytest.approx(recorded[0], rel=0.02)
    assert makespan == pytest.approx(recorded[1], rel=0.1)
