"""Tests of the watchdog as a process, beside processes that are really stopped or dead."""

from __future__ import annotations

import ctypes
import inspect
import os
import platform
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


IN_HASTE = SOURCE.replace("WRITING_S = 10.0", "WRITING_S = 0.5")


def test_profiler_of_a_dead_scheduler_that_does_not_end_is_killed(
    profiler: subprocess.Popen[bytes],
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as scheduler:
        zombie = psutil.Process(scheduler.pid)
        wait_for(lambda: zombie.status() == psutil.STATUS_ZOMBIE, "the scheduler to die")
        with watch(scheduler.pid, profiler.pid, IN_HASTE) as watchdog:
            wait_for(lambda: profiler.poll() is not None, "the profiler to be killed")
            assert watchdog.stdin is not None
            watchdog.stdin.close()  # as the kernel does after the last thread has ended
            assert watchdog.wait(60) == 0


FIRST_THREAD_ENDS = """
import ctypes, threading, time

threading.Thread(target=time.sleep, args=(60,)).start()
print(flush=True)
input()
ctypes.CDLL(None).syscall(60, 0)  # exit of this thread alone
"""

HOLDS_ONE_AND_WAITS_FOR_THE_OTHER = """
import ctypes, os, signal, sys

ATTACH, CONTINUE, WALL = 16, 7, 0x40000000
ptrace = ctypes.CDLL(None, use_errno=True).ptrace

def wake(*_):
    signal.signal(signal.SIGBUS, signal.SIG_DFL)  # as Rust's runtime does
    raise InterruptedError

signal.signal(signal.SIGBUS, wake)
signal.signal(signal.SIGINT, lambda *_: None)
first, *others = sorted(map(int, os.listdir(f"/proc/{sys.argv[1]}/task")))
for thread in (first, *others):
    assert ptrace(ATTACH, thread, 0, 0) == 0
    os.waitpid(thread, WALL)
ptrace(CONTINUE, first, 0, 0)
print(flush=True)
try:
    os.waitpid(first, WALL)
except InterruptedError:
    with open(sys.argv[2], "w") as file:
        file.write("written")
os._exit(0)
"""


@contextmanager
def program(source: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program at work, which has printed its first line."""
    command = [sys.executable, "-c", source, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="calls by their numbers there"
)
def test_profiler_that_holds_a_dead_scheduler_is_freed_of_its_wait(tmp_path: Path) -> None:
    """Its samples would be lost, had it to be killed."""
    file = tmp_path / "profile"
    with (
        program(FIRST_THREAD_ENDS) as scheduler,
        program(HOLDS_ONE_AND_WAITS_FOR_THE_OTHER, scheduler.pid, file) as profiler,
        watch(scheduler.pid, profiler.pid) as watchdog,
    ):
        assert scheduler.stdin is not None
        assert watchdog.stdin is not None
        scheduler.stdin.write(b"\n")
        scheduler.stdin.flush()
        assert profiler.wait(60) == 0
        watchdog.stdin.close()
        assert watchdog.wait(60) == 0
    assert file.read_text() == "written"


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
def test_pyspy_writes_its_file_after_the_process_was_killed(tmp_path: Path, delay_s: float) -> None:
    """Without the watchdog it hung in 4 of 120, and in 13 of 240 on a busy machine."""
    file, pyspy = tmp_path / "profile", find_pyspy()
    options = ["--format", "speedscope", "--rate", "2000", "--output", str(file)]
    with program(BUSY_IN_MANY_THREADS) as scheduler:
        command = [str(pyspy), "record", "--pid", str(scheduler.pid), *options]
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
            assert profiler.wait(60) == 0
            assert watchdog.stdin is not None
            watchdog.stdin.close()
            assert watchdog.wait(60) == 0
    assert b"<string>" in file.read_bytes()  # a frame of the program, in whichever thread


@pytest.mark.skipif(sys.platform != "linux", reason="reads the state of a process from /proc")
@pytest.mark.parametrize("stopped", [False, True])
def test_profiler_of_a_dead_scheduler_may_write_its_file(tmp_path: Path, stopped: bool) -> None:
    file = tmp_path / "profile"
    # As py-spy does, it writes its file though it is told to end.
    program = (
        "import signal; signal.signal(signal.SIGINT, lambda *_: None); print(flush=True); "
        f"input(); open({str(file)!r}, 'w').write('written')"
    )
    with (
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as profiler,
        watch(psutil.Process().pid, profiler.pid) as watchdog,
    ):
        assert profiler.stdout is not None
        profiler.stdout.readline()
        if stopped:
            profiler.send_signal(signal.SIGSTOP)
        assert watchdog.stdin is not None
        watchdog.stdin.close()  # as the kernel does when the scheduler dies
        profiler.communicate(b"\n", timeout=60)
        assert watchdog.wait(60) == 0
    assert file.read_text() == "written"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ptrace is called by its numbers of Linux")
def test_scheduler_that_is_held_for_good_is_freed_and_one_held_again_and_again_is_not(
    profiler: subprocess.Popen[bytes],
) -> None:
    """A profiler that cannot keep up holds the scheduler at each check."""
    in_haste = SOURCE.replace("POLL_S = 0.5", "POLL_S = 0.02")
    in_haste = in_haste.replace("FROZEN_S = 5.0", "FROZEN_S = 2.0")
    with held() as scheduler, watch(scheduler, profiler.pid, in_haste) as watchdog:
        for _ in range(150):
            let_go(scheduler)
            hold(scheduler)
            time.sleep(0.02)  # a profiler takes time for a sample
        assert watchdog.poll() is None
        assert watchdog.wait(60) == guard.FORCED
    assert profiler.wait(60) == -signal.SIGKILL


@contextmanager
def held() -> Iterator[int]:
    """Yield the PID of a process that this one holds."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        hold(process.pid)
        try:
            yield process.pid
        finally:
            process.kill()


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
