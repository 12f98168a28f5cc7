"""Runs py-spy as a child of the scheduler that it samples."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections import Counter
from typing import Any

from .recordings import ChildRecording, begin, discard, keep, path_of, under_way

TICKS = 2
"""Samples to wait for: the first may have been taken just before the beacon started."""

UNSURE_TICKS = 12
"""Samples to wait for if a sample may be dropped (`gil`) or unnoticed (`nonblocking`),
or if other threads compete for the interpreter."""

QUIET_S = 5e-6
"""CPU time of other threads below which none of them can have taken the interpreter."""

COUNTS_HOLDS = hasattr(resource, "RUSAGE_THREAD")
"""Whether a thread can read how often it was stopped: on Linux."""

READY = b"Sampling process"
STOPPED = b"Stopped sampling"
"""Text in py-spy's log after which it samples no longer, but may still write its file."""

FORCED = 3
"""Exit status of the watchdog after it had to free the scheduler."""

ENDED = b"e"
"""Byte sent to the watchdog when py-spy has ended."""

GUARD_PATIENCE_S = 5.0

BEACON_S = 0.002


def find_pyspy() -> str | None:
    """Return the py-spy that is installed with this interpreter, else the first on the path."""
    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    return shutil.which("py-spy", path=os.pathsep.join(places)) or shutil.which("py-spy")


def is_alone() -> bool:
    """Whether no other thread can take the GIL, which would look like a stop by py-spy."""
    quiet = {threading.main_thread().name, "schedprof-parent"}
    return all(thread.name in quiet for thread in threading.enumerate())


def switches() -> int:
    """Return the voluntary context switches of this thread."""
    scope = resource.RUSAGE_THREAD if COUNTS_HOLDS else resource.RUSAGE_SELF
    return resource.getrusage(scope).ru_nvcsw


def others_worked() -> float:
    """Return the CPU seconds that other threads of this process have used."""
    return time.process_time() - time.thread_time()


def beacon(seconds: float) -> int:
    """Keep the scheduler's thread busy in a known function, so that samples show it.

    Returns how often the thread was stopped meanwhile. It never waits by itself, so that is how
    often a profiler stopped it (or another thread took the GIL).
    """
    end = time.perf_counter() + seconds
    before = switches()
    while time.perf_counter() < end:
        pass
    return switches() - before


def watched_beacon(seconds: float) -> tuple[int, bool]:
    """Return how often the beacon was stopped, and whether no other thread can be the reason."""
    before = others_worked()
    stops = beacon(seconds)
    return stops, others_worked() - before < QUIET_S


class PySpyRecording(ChildRecording):
    """A py-spy at work, with its watchdog, its log and its file; neither file has a name."""

    kind = "pyspy"
    program = "py-spy"

    def launch(self, pyspy: str, guard: str, arguments: list[str], log_level: str) -> None:
        self.mark_begin()
        me, output = str(os.getpid()), path_of(self.descriptor)
        more = {"RUST_LOG": log_level} if log_level else {}
        self.spawn([pyspy, "record", "--pid", me, "--output", output, *arguments], more)
        self.guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", guard, me, str(self.profiler.pid)],
            stdin=subprocess.PIPE,
            # Inherited, it would keep the session's own output open if it outlives the session.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # A group of its own in this session: if the watchdog is stopped when this process
            # ends, the system ends it too.
            process_group=0,
        )

    def mark_begin(self) -> None:
        """Note when sampling begins, and the CPU time that this thread had used then."""
        self.began_at, self.cpu_before = time.time(), time.thread_time()

    async def prove(self, ticks: int, interval: float, *, holds: bool, deadline: float) -> bool:
        """Keep this thread busy until py-spy has sampled it; return False if it does not.

        If py-spy stops the process for each sample, the thread counts the stops; else that many
        intervals must pass. A stop may be another thread's turn instead, if one worked meanwhile:
        then more stops are needed.
        """
        while READY not in self.log:
            self.listen()
            if self.profiler.poll() is not None or time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.002)
        self.mark_begin()
        counts = holds and COUNTS_HOLDS
        held, kept_s = Counter[bool](), 0.0  # busy time only: standing still proves nothing
        while self.profiler.poll() is None and time.monotonic() < deadline:
            stops, is_sure = watched_beacon(BEACON_S)
            held[is_sure] += stops
            kept_s += BEACON_S
            is_proven = held[True] >= ticks or held.total() >= UNSURE_TICKS
            if is_proven if counts else kept_s / interval >= ticks:
                self.proven_at = time.monotonic()
                return True
            await asyncio.sleep(0)
        return False

    async def end(self, timeout: float) -> dict[str, Any]:
        """End py-spy, and tell when it last reported that it was late, and how busy this was."""
        late_at = os.fstat(self.log_file).st_mtime - self.began_at
        cpu = time.thread_time() - self.cpu_before
        return {**await super().end(timeout), "late_at": late_at, "cpu": cpu}

    def has_ended(self) -> bool:
        return super().has_ended() or STOPPED in self.log

    async def outcome(self) -> dict[str, Any]:
        self.tell(ENDED)
        if self.profiler.returncode == -signal.SIGKILL:
            await self.ended(self.guard, 1.0)  # if the watchdog killed it, the watchdog ends next
        if self.guard.poll() == FORCED:
            self.forced = "the scheduler lay stopped for seconds; py-spy was killed to free it"
        return await super().outcome()

    def tell(self, word: bytes) -> None:
        assert self.guard.stdin is not None
        try:
            self.guard.stdin.write(word)
        except BrokenPipeError:
            pass  # it had to act already

    async def dismiss(self) -> list[str]:
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        is_deaf = not await self.ended(self.guard, GUARD_PATIENCE_S)
        if is_deaf:
            self.guard.kill()
            await self.ended(self.guard, GUARD_PATIENCE_S)
        return ["py-spy's watchdog did not answer and was killed"] if is_deaf else []


async def start(
    guard: str,
    arguments: list[str],
    log_level: str,
    interval: float,
    gil: bool,
    nonblocking: bool,
    timeout: float,
    client: str,
    dask_scheduler: Any = None,
) -> dict[str, Any]:
    """Start a recording and wait until it is proven that it samples every `interval`.

    Returns a `token` and the `watchdog`, or a `problem` and its `log`.
    """
    if "pyspy" in under_way(dask_scheduler):
        return {"problem": "busy"}
    if (pyspy := find_pyspy()) is None:
        return {"problem": "not-installed", "executable": sys.executable}
    recording = PySpyRecording(client)
    try:
        recording.launch(pyspy, guard, arguments, log_level)
    except OSError as error:  # such as a program for another kind of machine
        if hasattr(recording, "profiler"):  # it is its watchdog that could not be started
            recording.profiler.kill()
            await recording.ended(recording.profiler, GUARD_PATIENCE_S)
        recording.remove()
        return {"problem": "not-started", "log": str(error)}
    keep(dask_scheduler, recording)
    deadline = time.monotonic() + timeout
    is_sure = (COUNTS_HOLDS or is_alone()) and not (gil or nonblocking)
    ticks = TICKS if is_sure else UNSURE_TICKS
    if await recording.prove(ticks, interval, holds=not nonblocking, deadline=deadline):
        return {**begin(dask_scheduler, recording), "watchdog": recording.guard.pid}
    answer = await recording.end(1.0)
    await discard(recording.token, dask_scheduler)
    return {"problem": "failed", **answer}
