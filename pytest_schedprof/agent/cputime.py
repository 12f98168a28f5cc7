"""Samples of the event loop's thread, taken and weighed by the CPU time that it used."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from types import CodeType, FrameType
from typing import Any

from .recordings import OwnProcess, Recording, begin, under_way

FRAMES_ARE_UNSAFE = sys.version_info[:2] == (3, 11)
"""Reading another thread's frames can crash Python 3.11."""

Line = tuple[int, int]
"""A code object's identity and a line of it: hashing the code itself would take longer."""


def beacon(sampler: Sampler, deadline: float) -> None:
    """Keep the thread busy until a sample has seen it here."""
    while not sampler.times and time.monotonic() < deadline:
        pass


class Sampler:
    """What both ways of sampling share: stacks, each with the CPU time since the one before."""

    mode = ""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.started_at = 0.0
        self.codes: dict[int, CodeType] = {}
        self.indexes: dict[tuple[Line, ...], int] = {}
        self.order: list[int] = []
        self.times: list[float] = []

    def begin(self) -> str:
        """Start to sample; the reason if that cannot be."""
        raise NotImplementedError

    def end(self) -> None:
        """Sample no longer, and leave everything as it was."""
        raise NotImplementedError

    def take(self, frame: FrameType | None, cpu: float) -> None:
        """Note the stack that was running when the thread had used so much CPU time."""
        lines = []
        while frame is not None:
            code = frame.f_code
            self.codes[id(code)] = code  # keeps it, so that the identity stays its own
            lines.append((id(code), frame.f_lineno or code.co_firstlineno))
            frame = frame.f_back
        self.order.append(self.indexes.setdefault(tuple(lines), len(self.indexes)))
        self.times.append(cpu)


def late_tick(number: int, frame: FrameType | None) -> None:
    """A tick can reach another thread after the timer's end: by default it kills the process."""


class SignalSampler(Sampler):
    """A timer on the process's CPU time, handled in the main thread, which runs the loop."""

    def begin(self) -> str:
        """Refuses to take a timer away from somebody else."""
        if signal.getitimer(signal.ITIMER_PROF) != (0.0, 0.0):
            return "busy"
        self.started_at = time.thread_time()
        self.previous = signal.signal(signal.SIGPROF, self.tick)
        signal.siginterrupt(signal.SIGPROF, False)  # others' system calls go on by themselves
        signal.setitimer(signal.ITIMER_PROF, 0.001, self.interval)
        return ""

    def tick(self, number: int, frame: FrameType | None) -> None:
        """A call of C code holds ticks back until it returns: they come as one, and weigh more."""
        self.take(frame, time.thread_time())

    def end(self) -> None:
        """The handler that was there comes back; where none was, one that does nothing stays."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.previous if callable(self.previous) else late_tick)


class ThreadSampler(Sampler):
    """A thread beside the loop's, for a loop that is not in the main thread."""

    mode = "thread"

    def begin(self) -> str:
        """Not on Python 3.11."""
        if FRAMES_ARE_UNSAFE:
            return "unsafe"
        self.watched = threading.get_ident()
        self.clock = time.pthread_getcpuclockid(self.watched)
        self.started_at = time.clock_gettime(self.clock)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name="schedprof-cputime", daemon=True)
        self.thread.start()
        return ""

    def run(self) -> None:
        """A thread that used no CPU time since the last look is idle."""
        last = self.started_at
        while not self.over.wait(self.interval):
            cpu = time.clock_gettime(self.clock)
            if cpu - last >= self.interval / 2:
                self.take(sys._current_frames().get(self.watched), cpu)
                last = cpu

    def end(self) -> None:
        """Wait for the thread's end."""
        self.over.set()
        self.thread.join()


class CpuTimeRecording(Recording):
    """One sampler at work."""

    kind = "cputime"

    def __init__(self, client: str, sampler: Sampler) -> None:
        super().__init__(client)
        self.sampler = sampler

    async def end(self, timeout: float) -> dict[str, Any]:
        """Write what was seen as a speedscope file."""
        self.sampler.end()
        unit = unit_of(self.sampler)
        ticks = list(ticks_of(self.sampler, unit))
        self.content = json.dumps(speedscope(self.sampler, ticks, unit)).encode()
        return {
            "mode": self.sampler.mode,
            "samples": len(ticks),
            "ticks": sum(ticks),
            "achieved_hz": 1 / unit,
        }


def unit_of(sampler: Sampler) -> float:
    """CPU time between two samples: what was asked for, or what the kernel's clock allows."""
    gaps = [after - before for before, after in pairwise(sampler.times)]
    return max(sampler.interval, median(gaps)) if gaps else sampler.interval


def ticks_of(sampler: Sampler, unit: float) -> Iterator[int]:
    """How many units of CPU time each sample stands for."""
    passed = 0
    for cpu in sampler.times:
        now = round((cpu - sampler.started_at) / unit)
        yield now - passed
        passed = now


def speedscope(sampler: Sampler, ticks: list[int], unit: float) -> dict[str, Any]:
    """The samples in speedscope's format, each as often as it has ticks."""
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
    name = getattr(code, "co_qualname", code.co_name)  # Python 3.10 has none
    return {"name": name, "file": code.co_filename, "line": line}


async def start(
    interval: float, timeout: float, client: str, dask_scheduler: Any = None
) -> dict[str, Any]:
    """Start a recording and wait until it is proven to sample.

    The answer holds a `token`, or a `problem`.
    """
    if "cputime" in under_way(dask_scheduler):
        return {"problem": "busy"}
    is_main = threading.current_thread() is threading.main_thread()
    if isinstance(dask_scheduler, OwnProcess) and not is_main:
        return {"problem": "not-main"}  # what is of interest there no thread but the main one runs
    sampler = SignalSampler(interval) if is_main else ThreadSampler(interval)
    if problem := sampler.begin():
        return {"problem": problem, "python": sys.version.split()[0]}
    beacon(sampler, time.monotonic() + timeout)
    if not sampler.times:
        sampler.end()
        return {"problem": "failed"}
    return begin(dask_scheduler, CpuTimeRecording(client, sampler))
