"""Switches callgrind on and off in the process that it emulates, and collects what it wrote."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .aside import leave_out
from .names import module_of_file
from .recordings import Recording, begin, under_way
from .requests import (
    DUMP_STATS,
    START_INSTRUMENTATION,
    STOP_INSTRUMENTATION,
    is_emulated,
    request,
)

OUT = "SCHEDPROF_CALLGRIND"
"""Variable of the environment with the path of callgrind's files, without their numbers."""

SYMBOL = "# schedprof-symbol: "
"""Begins lines that are added to callgrind's file: address and size in hexadecimal, and a name."""

PYTHON = "py::"
"""Begins the interpreter's names of Python functions."""


MAIN_THREAD = 1

UNTIL_IT_LOOKS = 10_000
"""Steps of a loop, each of several blocks: after 5000 blocks callgrind looks which thread runs."""

MOST_TRIES = 20


class CallgrindRecording(Recording):
    """Callgrind at work."""

    kind = "callgrind"

    def begin(self) -> None:
        """Collect and set aside what is in memory, then count without the collector.

        When it would run depends on everything before, and it would visit all of that.
        """
        self._had_collector = gc.isenabled()
        gc.collect()
        gc.disable()
        gc.freeze()
        self._undo = leave_out()
        self._is_on = True
        request(START_INSTRUMENTATION)

    async def end(self, timeout: float) -> dict[str, Any]:
        """Stop counting, and take over the file."""
        if not self._is_on:
            return {}
        request(STOP_INSTRUMENTATION)
        self._is_on = False
        for undo in self._undo:
            undo()
        gc.unfreeze()
        if self._had_collector:
            gc.enable()
        self.content = dumped()
        lines = (f"{SYMBOL}{start:x} {size:x} {name}\n" for start, size, name in symbols())
        self.content += "".join(lines).encode("utf-8", "replace")
        return {}


def dumped() -> bytes:
    """Return what callgrind writes about the main thread, in which the event loop runs.

    Threads beside it work by the clock, as the one that samples stacks. Callgrind writes about the
    thread that it takes for the one at work, which it looks up after a number of blocks only: if
    another one was at work just before, it may write about that.
    """
    for _ in range(MOST_TRIES):
        request(DUMP_STATS)
        for thread, file in written():
            content = file.read_bytes()
            file.unlink()
            if thread == MAIN_THREAD:
                return content
        sum(range(UNTIL_IT_LOOKS))
        os.getppid()  # callgrind looks where a system call has ended
    return b""


def written() -> list[tuple[int, Path]]:
    """Return the files that callgrind wrote on request, with the numbers of their threads."""
    out = Path(os.environ[OUT])
    form = re.compile(rf"{re.escape(out.name)}\.\d+-(\d+)")
    names = [(each, form.fullmatch(each.name)) for each in out.parent.iterdir()]
    return [(int(found[1]), each) for each, found in names if found]


def symbols() -> Iterator[tuple[int, int, str]]:
    """Yield address, size and name of what callgrind cannot name.

    These are the functions of Python, if the interpreter names them, and files with code.
    """
    yield from _python_functions()
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        if found := re.fullmatch(r"(\w+)-(\w+) r-x\S* \S+ \S+ \S+ +(/.*)", line):
            first, last = int(found[1], 16), int(found[2], 16)
            yield first, last - first, f"[{os.path.basename(found[3])}]"


def _python_functions() -> Iterator[tuple[int, int, str]]:
    """Yield where each Python function begins, as far as the interpreter tells it to profilers."""
    told = Path(f"/tmp/perf-{os.getpid()}.map")
    modules = {getattr(each, "__file__", None): name for name, each in [*sys.modules.items()]}
    for line in told.read_text(errors="replace").splitlines() if told.exists() else ():
        begin, size, name = line.split(" ", 2)
        qualname, _, file = name.removeprefix(PYTHON).partition(":")
        if file not in modules:
            modules[file] = module_of_file(file)
        yield int(begin, 16), int(size, 16), f"{PYTHON}{modules[file]}:{qualname}"


def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to count; return a `token` or a `problem`."""
    if CallgrindRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    if OUT not in os.environ or not is_emulated():
        return {"problem": "not-emulated"}
    recording = CallgrindRecording(client)
    answer = begin(dask_scheduler, recording)
    recording.begin()
    return answer
