"""Tests of the watchdog as a process, beside processes that are really stopped or dead."""

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
from pytest_schedprof.agent.pyspy import find_pyspy


@pytest.fixture
def profiler() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends only when it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


SOURCE = inspect.getsource(guard)


def watch(scheduler: int, profiler: int, source: str = SOURCE) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", source]
    return subprocess.Popen([*command, str(scheduler), str(profiler)], stdin=subprocess.PIPE)


OF_ANY_BYTES = "import ctypes; ctypes.CDLL(None).prctl(15, b'half \\xd0', 0, 0, 0)"
"""A program that gives its process a name which is not UTF-8, as the kernel does by cutting it."""


@pytest.mark.parametrize("source", ["", OF_ANY_BYTES])
def test_profiler_of_a_dead_scheduler_is_killed(
    profiler: subprocess.Popen[bytes], source: str
) -> None:
    with subprocess.Popen([sys.executable, "-c", source]) as scheduler:
        zombie = psutil.Process(scheduler.pid)
        wait_for(lambda: zombie.status() == psutil.STATUS_ZOMBIE, "the scheduler to die")
        with watch(scheduler.pid, profiler.pid) as watchdog:
            wait_for(lambda: profiler.poll() is not None, "the profiler to be killed")
            # It closes the pipe, as the kernel does after the last thread has ended.
            watchdog.communicate(timeout=60)
            assert watchdog.returncode == 0


@contextmanager
def program(source: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program at work, which has printed its first line."""
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


BUSY_IN_MANY_THREADS = """
import threading, time

def wait():
    while True:
        time.sleep(0.001)

for _ in range(60):
    threading.Thread(target=wait, daemon=True).start()
print(flush=True)
while True:
    sum(range(1000))
"""


def cpu_of(pid: int) -> float:
    """The CPU time that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a process is killed while it is stopped")
@pytest.mark.parametrize("delay_s", [index / 1000 for index in range(12)])
def test_pyspy_ends_after_the_process_was_killed(tmp_path: Path, delay_s: float) -> None:
    """Without the watchdog it hung in 4 of 120, and in 13 of 240 on a busy machine."""
    options = ["--format", "speedscope", "--rate", "2000", "--output", str(tmp_path / "profile")]
    with program(BUSY_IN_MANY_THREADS) as scheduler:
        command = [str(find_pyspy()), "record", "--pid", str(scheduler.pid), *options]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as profiler,
            watch(scheduler.pid, profiler.pid) as watchdog,
        ):
            assert profiler.stdout is not None
            assert b"Sampling process" in profiler.stdout.readline()
            start = cpu_of(profiler.pid)
            wait_for(lambda: cpu_of(profiler.pid) > start + 0.05, "samples")
            time.sleep(delay_s)  # it is killed between samples, or in one
            scheduler.kill()
            profiler.wait(60)
            watchdog.communicate(timeout=60)
            assert watchdog.returncode == 0


@pytest.mark.parametrize("stopped", [False, True])
def test_profiler_is_killed_when_the_schedulers_end_of_the_pipe_closes(
    profiler: subprocess.Popen[bytes], stopped: bool
) -> None:
    """As the kernel closes it when the scheduler dies."""
    if stopped:
        profiler.send_signal(signal.SIGSTOP)
    with watch(psutil.Process().pid, profiler.pid) as watchdog:
        watchdog.communicate(timeout=60)
    assert watchdog.returncode == 0
    assert profiler.wait(60) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ptrace is called by its numbers of Linux")
def test_scheduler_that_is_held_for_good_is_freed_and_one_held_again_and_again_is_not(
    profiler: subprocess.Popen[bytes],
) -> None:
    """A profiler that cannot keep up holds the scheduler at each check."""
    in_haste = SOURCE.replace("POLL_S = 0.5", "POLL_S = 0.02")
    in_haste = in_haste.replace("FROZEN_S = 5.0", "FROZEN_S = 2.0")
    with program("print(flush=True)\ninput()") as scheduler:
        hold(scheduler.pid)
        with watch(scheduler.pid, profiler.pid, in_haste) as watchdog:
            for _ in range(150):
                let_go(scheduler.pid)
                hold(scheduler.pid)
                time.sleep(0.02)  # a profiler takes time for a sample
            assert watchdog.poll() is None
            assert watchdog.wait(60) == guard.FORCED
    assert profiler.wait(60) == -signal.SIGKILL


PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def hold(pid: int) -> None:
    """Stop the process, as a profiler does for a sample."""
    assert ctypes.CDLL(None).ptrace(PTRACE_ATTACH, pid, 0, 0) == 0
    os.waitpid(pid, 0)


def let_go(pid: int) -> None:
    """Let the process run on."""
    assert ctypes.CDLL(None).ptrace(PTRACE_DETACH, pid, 0, 0) == 0


def test_word_of_the_agent_ends_it_and_touches_nothing(profiler: subprocess.Popen[bytes]) -> None:
    """After the profiler has ended, any process may have its PID."""
    with watch(psutil.Process().pid, profiler.pid) as watchdog:
        watchdog.communicate(b"e", timeout=60)
    assert watchdog.returncode == 0
    assert profiler.poll() is None
