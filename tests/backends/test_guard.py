"""The watchdog, as a process beside processes that are really stopped or dead."""

from __future__ import annotations

import ctypes
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from support import wait_for

from pytest_schedprof.agent import guard


@pytest.fixture
def profiler() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends only when it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


SOURCE = inspect.getsource(guard)


def watch(
    scheduler: int, profiler: int, file: Path, source: str = SOURCE
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", source]
    return subprocess.Popen(
        [*command, str(scheduler), str(profiler), str(file)], stdin=subprocess.PIPE
    )


def test_profiler_that_keeps_a_dead_scheduler_from_its_grave_is_killed(
    tmp_path: Path, profiler: subprocess.Popen[bytes]
) -> None:
    """py-spy waits forever for the first thread of a process killed while it held the others."""
    file = tmp_path / "schedprof-x" / "profile"
    file.parent.mkdir()
    file.touch()
    with subprocess.Popen([sys.executable, "-c", ""]) as scheduler:
        zombie = psutil.Process(scheduler.pid)
        wait_for(lambda: zombie.status() == psutil.STATUS_ZOMBIE, "the scheduler to die")
        with watch(scheduler.pid, profiler.pid, file) as watchdog:
            wait_for(lambda: profiler.poll() is not None, "the profiler to be killed", timeout_s=5)
            assert watchdog.stdin is not None
            watchdog.stdin.close()  # as the kernel does once the last thread is gone
            assert watchdog.wait(5) == 0
    assert not file.parent.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="ptrace is called by its numbers of Linux")
def test_scheduler_that_is_held_for_good_is_freed_and_one_held_again_and_again_is_not(
    tmp_path: Path, profiler: subprocess.Popen[bytes]
) -> None:
    """A profiler that does not keep up holds the scheduler whenever one looks."""
    file = tmp_path / "schedprof-x" / "profile"
    file.parent.mkdir()
    in_haste = SOURCE.replace("POLL_S = 0.5", "POLL_S = 0.02")
    in_haste = in_haste.replace("FROZEN_S = 5.0", "FROZEN_S = 2.0")
    with held() as scheduler, watch(scheduler, profiler.pid, file, in_haste) as watchdog:
        for _ in range(150):
            let_go(scheduler)
            hold(scheduler)
            time.sleep(0.02)  # a profiler takes its time for a sample
        assert watchdog.poll() is None
        assert watchdog.wait(10) == guard.FORCED
    assert profiler.wait(5) == -signal.SIGKILL


@contextmanager
def held() -> Iterator[int]:
    """A process that this one holds, by its number."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        hold(process.pid)
        try:
            yield process.pid
        finally:
            process.kill()


PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def hold(pid: int) -> None:
    """As a profiler does for a sample."""
    assert ctypes.CDLL(None).ptrace(PTRACE_ATTACH, pid, 0, 0) == 0
    os.waitpid(pid, 0)


def let_go(pid: int) -> None:
    """It runs on."""
    assert ctypes.CDLL(None).ptrace(PTRACE_DETACH, pid, 0, 0) == 0


@pytest.mark.parametrize("words", [b"q", b"eq"])
def test_word_of_the_agent_ends_it_and_touches_nothing(
    tmp_path: Path, profiler: subprocess.Popen[bytes], words: bytes
) -> None:
    file = tmp_path / "schedprof-x" / "profile"
    file.parent.mkdir()
    file.touch()
    with watch(psutil.Process().pid, profiler.pid, file) as watchdog:
        watchdog.communicate(words, timeout=5)
    assert watchdog.returncode == 0
    assert profiler.poll() is None
    assert file.exists()


def test_file_that_nobody_fetched_is_removed_and_no_process_touched(
    tmp_path: Path, profiler: subprocess.Popen[bytes]
) -> None:
    """Once the profiler has ended its number may be that of anybody."""
    file = tmp_path / "schedprof-x" / "profile"
    file.parent.mkdir()
    file.touch()
    with watch(psutil.Process().pid, profiler.pid, file) as watchdog:
        (file.parent / "py-spy").touch()  # one that was sent there
        watchdog.communicate(b"e", timeout=5)
    assert watchdog.returncode == 0
    assert profiler.poll() is None
    assert not file.parent.exists()
