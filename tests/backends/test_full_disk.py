"""Tests of a full disk where the scheduler runs: it is named, and not the profiler's proof."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import small_disk

from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.memray import MemrayBackend
from pytest_schedprof.backends.pyspy import PySpyBackend
from pytest_schedprof.backends.viztracer import VizTracerBackend
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import RecordingError


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("mounted") / "small", kilobytes=400) as place:
        yield place


@pytest.fixture(scope="module")
def cluster_on_it(small: Path) -> Iterator[LocalProcesses]:
    """A scheduler whose temporary files are on that disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(small))
        cluster = LocalProcesses(0, timeout_s=200)
    yield cluster
    cluster.close()


@pytest.mark.parametrize("backend", [PySpyBackend, VizTracerBackend, MemrayBackend])
def test_a_disk_that_fills_up_is_named(
    small: Path, cluster_on_it: LocalProcesses, backend: type[Backend]
) -> None:
    with Control(cluster_on_it.address) as control:
        recording = backend(rate_hz=100, options={}).start(control, timeout_s=200)
        with tempfile.TemporaryFile(dir=small) as filler:
            with pytest.raises(OSError, match="No space left"):
                write_for_ever(filler.fileno())
            with pytest.raises(RecordingError) as caught:
                recording.stop(timeout_s=200)
    assert f"the disk with '{small}' is full where the scheduler tcp://" in str(caught.value)
    assert "make room, or start it with another TMPDIR" in str(caught.value)


def write_for_ever(descriptor: int) -> None:
    while True:
        os.write(descriptor, b"x" * 4096)
