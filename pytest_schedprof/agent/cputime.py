"""Samples the event loop's thread by the CPU time that it uses."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from types import CodeType, FrameType
from typing import Any

from .perf_events import (
    DISABLE,
    REFRESH,
    control,
    cpu_clock,
    is_known_here,
    open_counter,
    send_signals,
    set_interval,
)
from .recordings import OwnProcess, Recording, as_json, begin, under_way

SHORTEST = 0.0005
"""Seconds between two ticks at least: a handler must be over long before the next one."""

FIRST = 0.001
"""Seconds until the first tick, which proves that it samples: the thread is busy until then."""

REMEDY = "; with kernel.perf_event_paranoid=1 or CAP_PERFMON it has a finer one"
"""How this process may use the kernel's clock."""


class TimerClock:
    """The process's timer: the kernel looks at it with its ticks, 100 to 1000 times a second."""

    def __init__(self, interval: float, remedy: str = "") -> None:
        self.interval = interval
        self.remedy = remedy

    def start(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, FIRST, self.interval)

    def go_on(self) -> None:
        """Do nothing: the timer does not stop at a tick."""

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


class KernelClock:
    """The kernel's own clock of this thread's CPU time, which has ticks of any length.

    It stops at each tick until it is told to go on. Otherwise a handler that takes as long as an
    interval, as with a deep stack, would leave no time for anything else.
    """

    remedy = ""

    def __init__(self, interval: float) -> None:
        """Open the clock.

        Raises:
            OSError: if the kernel lends none.
        """
        self.interval = max(interval, SHORTEST)
        self.has_ticked = False
        self.descriptor = open_counter(cpu_clock(min(self.interval, FIRST)))
        try:
            send_signals(self.descriptor, signal.SIGPROF)
        except OSError:
            os.close(self.descriptor)
            raise

    def start(self) -> None:
        control(self.descriptor, REFRESH, 1)

    def go_on(self) -> None:
        """Let the clock run for another interval."""
        if not self.has_ticked:
            self.has_ticked = True
            set_interval(self.descriptor, self.interval)
        control(self.descriptor, REFRESH, 1)

    def stop(self) -> None:
        """Stop the clock too: a child that was forked meanwhile has it open."""
        control(self.descriptor, DISABLE)
        os.close(self.descriptor)


def finest_clock(interval: float) -> TimerClock | KernelClock:
    """Return the kernel's clock where this process may use it, else the timer."""
    try:
        return KernelClock(interval) if is_known_here() else TimerClock(interval)
    except OSError:
        return TimerClock(interval, REMEDY)


FRAMES_ARE_UNSAFE = sys.version_info[:2] == (3, 11)
"""Reading another thread's frames can crash Python 3.11."""

Line = tuple[int, int]
"""A code object's `id` and one of its lines; hashing the code object itself is slower."""


def beacon(sampler: Sampler, deadline: float) -> None:
    """Keep the thread busy until a sample has seen it here."""
    while not sampler.times and time.monotonic() < deadline:
        pass


class Sampler:
    """Base of both samplers: takes stacks, each with the thread's CPU time when it was seen."""

    mode = ""
    remedy = ""
    """What lets it sample at a higher rate; empty if nothing does."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.started_at = 0.0
        """CPU time that the thread had used when sampling began."""
        self.codes: dict[int, CodeType] = {}
        """Code objects by their `id`."""
        self.indexes: dict[tuple[Line, ...], int] = {}
        self.order: list[int] = []
        self.times: list[float] = []

    def begin(self) -> str:
        """Start to sample; return the reason if that is not possible, else ""."""
        raise NotImplementedError

    def end(self) -> None:
        """Stop sampling and restore what was there before."""
        raise NotImplementedError

    def take(self, frame: FrameType | None, cpu: float) -> None:
        """Keep the stack that was running when the thread had used `cpu` seconds."""
        lines = []
        while frame is not None:
            code = frame.f_code
            self.codes[id(code)] = code  # kept alive, so that its id is not reused
            lines.append((id(code), frame.f_lineno or code.co_firstlineno))
            frame = frame.f_back
        self.order.append(self.indexes.setdefault(tuple(lines), len(self.indexes)))
        self.times.append(cpu)


def late_tick(number: int, frame: FrameType | None) -> None:
    """Do nothing: a tick that is delivered after the timer's end would kill the process."""


class SignalSampler(Sampler):
    """Uses a clock of CPU time, whose signal is handled in the main thread, which runs the loop."""

    def begin(self) -> str:
        if signal.getitimer(signal.ITIMER_PROF) != (0.0, 0.0):
            return "busy"
        self.started_at = time.thread_time()
        self.previous = signal.signal(signal.SIGPROF, self.tick)
        signal.siginterrupt(signal.SIGPROF, False)  # system calls are restarted
        self.clock = finest_clock(self.interval)
        self.remedy = self.clock.remedy
        self.clock.start()
        return ""

    def tick(self, number: int, frame: FrameType | None) -> None:
        """Take a sample. Ticks during a call of C code are merged into one when it returns."""
        self.take(frame, time.thread_time())
        self.clock.go_on()

    def end(self) -> None:
        """Stop the clock; restore the former handler, or leave one that does nothing."""
        signal.signal(signal.SIGPROF, late_tick)  # `tick` would let a stopped clock go on
        self.clock.stop()
        if callable(self.previous):
            signal.signal(signal.SIGPROF, self.previous)


class ThreadSampler(Sampler):
    """Uses a thread beside the loop's, for a loop that is not in the main thread."""

    mode = "thread"

    def begin(self) -> str:
        """Start the thread, except on Python 3.11, and on macOS, where a thread has no clock."""
        if FRAMES_ARE_UNSAFE:
            return "unsafe"
        if not hasattr(time, "pthread_getcpuclockid"):
            return "no-clock"
        self.watched = threading.get_ident()
        self.clock = time.pthread_getcpuclockid(self.watched)
        self.started_at = time.clock_gettime(self.clock)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name="schedprof-cputime", daemon=True)
        self.thread.start()
        return ""

    def run(self) -> None:
        """Sample the thread if it used CPU time since the last look; else it is idle."""
        last = self.started_at
        while not self.over.wait(self.interval):
            cpu = time.clock_gettime(self.clock)
            if cpu - last >= self.interval / 2:
                self.take(sys._current_frames().get(self.watched), cpu)
                last = cpu

    def end(self) -> None:
        self.over.set()
        self.thread.join()


class CpuTimeRecording(Recording):
    """A sampler at work."""

    kind = "cputime"

    def __init__(self, client: str, sampler: Sampler) -> None:
        super().__init__(client)
        self.sampler = sampler

    def begin(self, deadline: float) -> str:
        """Start to sample and wait for a sample; return what went wrong, else ""."""
        if problem := self.sampler.begin():
            return problem
        beacon(self.sampler, deadline)
        if not self.sampler.times:
            self.sampler.end()
            return "failed"
        return ""

    async def end(self, timeout: float) -> dict[str, Any]:
        self.sampler.end()
        unit = unit_of(self.sampler)
        ticks = list(ticks_of(self.sampler, unit))
        self.content = as_json(speedscope(self.sampler, ticks, unit))
        return {
            "mode": self.sampler.mode,
            "samples": len(ticks),
            "ticks": sum(ticks),
            "achieved_hz": 1 / unit,
            "remedy": self.sampler.remedy,
        }


def unit_of(sampler: Sampler) -> float:
    """Return the CPU time between two samples: as requested, or what the kernel's clock allows."""
    gaps = [after - before for before, after in pairwise(sampler.times)]
    return max(sampler.interval, median(gaps)) if gaps else sampler.interval


def ticks_of(sampler: Sampler, unit: float) -> Iterator[int]:
    """Return how many units of CPU time each sample stands for."""
    passed = 0
    for cpu in sampler.times:
        now = round((cpu - sampler.started_at) / unit)
        yield now - passed
        passed = now


def speedscope(sampler: Sampler, ticks: list[int], unit: float) -> dict[str, Any]:
    """Return the samples in speedscope's format, each repeated for its ticks."""
    frames: dict[Line, int] = {}
    stacks = [
        [frames.setdefault(line, len(frames)) for line in reversed(lines)]
        for lines in sampler.indexes
    ]
    samples = [stacks[i] for i, n in zip(sampler.order, ticks, strict=True) for _ in range(n)]
    profile = {
        "type": "sampled",
        "name": "event loop",
        "unit": "seconds",
        "startValue": 0,
        "endValue": len(samples) * unit,
        "samples": samples,
        "weights": [unit] * len(samples),
    }
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "pytest-schedprof",
        "name": f"cputime {sampler.mode}".strip(),
        "activeProfileIndex": 0,
        "profiles": [profile],
        "shared": {"frames": [_frame(sampler.codes[code], line) for code, line in frames]},
    }


def _frame(code: CodeType, line: int) -> dict[str, Any]:
    return {"name": code.co_qualname, "file": code.co_filename, "line": line}


async def start(
    interval: float, timeout: float, client: str, dask_scheduler: Any = None
) -> dict[str, Any]:
    """Start a recording and wait until it is proven to sample.

    Returns a `token` or a `problem`.
    """
    if "cputime" in under_way(dask_scheduler):
        return {"problem": "busy"}
    is_main = threading.current_thread() is threading.main_thread()
    if isinstance(dask_scheduler, OwnProcess) and not is_main:
        return {"problem": "not-main"}  # the main thread runs what is of interest there
    sampler = SignalSampler(interval) if is_main else ThreadSampler(interval)
    recording = CpuTimeRecording(client, sampler)
    if problem := recording.begin(time.monotonic() + timeout):
        recording.remove()
        return {"problem": problem, "python": sys.version.split()[0]}
    return begin(dask_scheduler, recording)
