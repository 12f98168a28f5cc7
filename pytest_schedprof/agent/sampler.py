"""The program that samples its parent with tachyon, the sampler of Python 3.15.

Run as `python -c SOURCE PID DESCRIPTOR FILE SETTINGS`, the last as JSON. It drops what it sees
until the function `beacon` of FILE runs in the parent, and writes READY to its log then. SIGINT or
the end of its parent ends it: it writes its samples to the descriptor, as a file for speedscope,
and a line of JSON about their quality to its log.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

READY = "schedprof: sampling"
QUALITY = "schedprof: quality "
BEACON = "beacon"
OWN_NUMBER = re.compile("-[0-9]+$")
"""The number in the name of a task, which is another one in each run."""


Stack = tuple[Any, ...]
"""Frames, the innermost first."""

Place = tuple[str, str, int]
"""File, name and line of a frame."""


class Stacks:
    """The stacks of each thread, in the order in which they were seen."""

    def __init__(self, interval_s: float, parent: int, file: str) -> None:
        self.interval_s, self.parent, self.file = interval_s, parent, file
        self.running, self.is_ready = True, False
        self.stacks: dict[Stack, int] = {}
        """Index of each stack."""
        self.threads: dict[int, list[int]] = {}
        """Indexes of stacks by thread."""
        self.samples = self.errors = 0
        self.least_lag, self.behind_s = float("inf"), 0.0
        """Delay against a steady beat, and by how much more a sample was late."""
        self.own: dict[str, float] = {}
        """The sampler's own figures."""

    def collect(self, stack_frames: Any, timestamps_us: Any = None) -> None:
        stacks = [(thread, tuple(frames)) for thread, frames in each_thread(stack_frames)]
        if not self.is_ready:
            frames = (frame for _, stack in stacks for frame in stack)
            self.is_ready = (BEACON, self.file) in {(f.funcname, f.filename) for f in frames}
            if self.is_ready:
                tell(READY)
        else:
            for thread, stack in stacks:
                index = self.stacks.setdefault(stack, len(self.stacks))
                self.threads.setdefault(thread, []).append(index)
        self._count()

    def collect_failed_sample(self) -> None:
        """Count a sample that could not be read."""
        self.errors += self.is_ready
        self._count()

    def _count(self) -> None:
        if self.is_ready:
            lag = time.perf_counter() - self.samples * self.interval_s
            self.samples += 1
            self.least_lag = min(self.least_lag, lag)
            self.behind_s = max(self.behind_s, lag - self.least_lag)
        if os.getppid() != self.parent:
            self.running = False

    def set_stats(
        self, interval_us: int, seconds: float, rate_hz: float, *percent: float, **others: Any
    ) -> None:
        """Keep the sampler's own figures; the percentages are of errors and of missed samples."""
        self.own = {"rate_hz": rate_hz, "missed": percent[1] / 100}

    def quality(self) -> dict[str, float]:
        """Return what is told of the samples."""
        counts = {"samples": self.samples, "errors": self.errors}
        return {**counts, "behind_s": self.behind_s, **self.own}

    def export(self, file: TextIO) -> None:
        frames: dict[Place, int] = {}
        texts = [self._text(stack, frames) for stack in self.stacks]
        profiles = [self._profile(thread, texts) for thread in sorted(self.threads)]
        places = [{"name": name, "file": path, "line": line} for path, name, line in frames]
        file.write('{"$schema": "https://www.speedscope.app/file-format-schema.json", ')
        file.write('"exporter": "schedprof with tachyon", "profiles": [')
        file.write(", ".join(profiles))
        file.write('], "shared": ' + json.dumps({"frames": places}) + "}")

    def _text(self, stack: Stack, frames: dict[Place, int]) -> str:
        indexes = [frames.setdefault(place_of(frame), len(frames)) for frame in reversed(stack)]
        return json.dumps(indexes)

    def _profile(self, thread: int, texts: list[str]) -> str:
        indexes = self.threads[thread]
        facts = {
            "type": "sampled",
            "name": f"thread {thread}",
            "unit": "seconds",
            "startValue": 0,
            "endValue": len(indexes) * self.interval_s,
        }
        samples = ", ".join(texts[index] for index in indexes)
        weights = ", ".join([repr(self.interval_s)] * len(indexes))
        return f'{json.dumps(facts)[:-1]}, "samples": [{samples}], "weights": [{weights}]}}'


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def each_thread(stack_frames: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield each thread that was seen, with its frames or those of a task and what awaits it."""
    from profiling.sampling.collector import iter_async_frames

    if stack_frames and hasattr(stack_frames[0], "awaited_by"):
        for frames, thread, _ in iter_async_frames(stack_frames):
            yield thread, frames
        return
    for interpreter in stack_frames:
        for thread in interpreter.threads:
            if thread.frame_info:
                yield thread.thread_id, thread.frame_info


def place_of(frame: Any) -> Place:
    """Return the file, the name and the line of a frame; of a task, its name without a number."""
    line = frame.location if isinstance(frame.location, int) else (frame.location or [0])[0]
    is_task = frame.filename == "<task>"
    return frame.filename, OWN_NUMBER.sub("", frame.funcname) if is_task else frame.funcname, line


def sample(parent: int, descriptor: int, file: str, settings: dict[str, Any]) -> None:
    """Sample until the end, then write the file and what is told of it."""
    from profiling.sampling import constants
    from profiling.sampling.sample import SampleProfiler

    interval_us = max(1, round(1e6 / settings["rate_hz"]))
    stacks = Stacks(interval_us / 1e6, parent, file)
    mode = getattr(constants, f"PROFILING_MODE_{settings['mode'].upper()}")
    header = {"mode": mode, "native": settings["native"], "gc": settings["gc"]}
    profiler = SampleProfiler(parent, interval_us, True, **header)
    signal.signal(signal.SIGINT, lambda *_: setattr(stacks, "running", False))
    profiler.sample(stacks, async_aware=settings["tasks"] or False)
    with open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False) as output:
        stacks.export(output)
    tell(QUALITY + json.dumps(stacks.quality()))


if __name__ == "__main__":
    sample(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
