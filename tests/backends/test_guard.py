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


def test_profiler_that_keeps_a_dead_scheduler_from_its_grave_is_killed(
    profiler: subprocess.Popen[bytes],
) -> None:
    """py-spy waits forever for the first thread of a process killed while it held the others."""
    with subprocess.Popen([sys.executable, "-c", ""]) as scheduler:
        zombie = psutil.Process(scheduler.pid)
        wait_for(lambda: zombie.status() == psutil.STATUS_ZOMBIE, "the scheduler to die")
        with watch(scheduler.pid, profiler.pid, IN_HASTE) as watchdog:
            wait_for(lambda: profiler.poll() is not None, "the profiler to be killed", timeout_s=5)
            assert watchdog.stdin is not None
            watchdog.stdin.close()  # as the kernel does after the last thread has ended
            assert watchdog.wait(5) == 0


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
        profiler.communicate(b"\n", timeout=10)
        assert watchdog.wait(5) == 0
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
        assert watchdog.wait(10) == guard.FORCED
    assert profiler.wait(5) == -signal.SIGKILL


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
        watchdog.communicate(b"e", timeout=5)
    assert watchdog.returncode == 0
    assert profiler.poll() is None
