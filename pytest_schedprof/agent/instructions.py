"""Counts the instructions of the event loop's thread.

By callgrind, which is switched on and off in the process that it emulates, or by a counter of the
processor.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import mmap
import os
import platform
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from importlib import _bootstrap
from pathlib import Path
from types import ModuleType
from typing import Any

from .names import module_of_file, names_in
from .patches import replace
from .perf_events import DISABLE, ENABLE, control, instructions, is_known_here, open_counter
from .recordings import Recording, as_json, begin, under_way

CODES = {
    "x86_64": (
        "4889f8"  # mov rax, rdi: the address of the request and its arguments
        "4889f2"  # mov rdx, rsi: the answer where nothing listens
        "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61, 51: by 128 in all
        "4887db"  # xchg rbx, rbx: here valgrind looks at rax, and answers in rdx
        "4889d0"  # mov rax, rdx
        "c3"  # ret
    )
}
"""Machine code of a function of two arguments that makes a request, by the processor."""

RUNNING_ON_VALGRIND = 0x1001

CALLGRIND = ord("C") << 24 | ord("T") << 16
DUMP_STATS = CALLGRIND
TOGGLE_COLLECT = CALLGRIND + 2
START_INSTRUMENTATION = CALLGRIND + 4
STOP_INSTRUMENTATION = CALLGRIND + 5


def can_be_emulated() -> bool:
    """Whether a process can talk to callgrind here."""
    return sys.platform == "linux" and platform.machine() in CODES


@cache
def _function() -> Callable[[int, int], int] | None:
    if not can_be_emulated():
        return None
    allowed = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=allowed)
    except OSError:  # a system that lets nobody write code
        return None
    memory.write(bytes.fromhex(CODES[platform.machine()]))
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    made = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(address)
    made.memory = memory  # type: ignore[attr-defined]
    return made


def request(number: int) -> int:
    """Make a request; return its answer, which is 0 where valgrind does not listen."""
    function = _function()
    if function is None:
        return 0
    words = (ctypes.c_uint64 * 6)(number)
    return function(ctypes.addressof(words), 0)


class CallgrindPause(threading.local):
    """Lets callgrind look away from what this thread does inside."""

    _depth = 0

    def __enter__(self) -> None:
        if not self._depth:
            request(TOGGLE_COLLECT)
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            request(TOGGLE_COLLECT)


def leave_out() -> ExitStack:
    """Leave out imports and turns of other processes, until what is returned is closed.

    A module is imported once, and compiled if nobody did so before. And a loop in virtual time
    hands the turn to the test's process more or less often.
    """
    aside, undo = CallgrindPause(), ExitStack()
    find = _bootstrap._find_and_load  # type: ignore[attr-defined]

    def find_aside(*names: Any) -> Any:
        with aside:
            return find(*names)

    replace(_bootstrap, "_find_and_load", find_aside, undo)
    loop = asyncio.get_running_loop()
    if hasattr(loop, "aside"):
        replace(loop, "aside", aside, undo)
    return undo


OUT = "SCHEDPROF_CALLGRIND"
"""Variable of the environment with the path of callgrind's files, without their numbers."""

SYMBOL = "# schedprof-symbol: "
"""Begins lines that are added to callgrind's file: address and size in hexadecimal, and a name."""

PYTHON = "py::"
"""Begins the interpreter's names of Python functions."""

ENTRY = re.compile(r"([0-9a-f]+) ([0-9a-f]+) (.*)", re.DOTALL)
"""What the interpreter tells of a function: address and size in hexadecimal, and a name, which may
have line breaks."""

NEXT_ENTRY = re.compile(r"\n(?=[0-9a-f]+ [0-9a-f]+ |[0-9a-f ]*\Z)")
"""Stands before an entry, or before the begin of one at the end, where the disk was full."""


MAIN_THREAD = 1

UNTIL_IT_LOOKS = 10_000
"""Steps of a loop, each of several blocks: after 5000 blocks callgrind looks which thread runs."""

MOST_TRIES = 20


KIND = "instructions"


class ValgrindRecording(Recording):
    """Callgrind at work."""

    kind = KIND

    def begin(self) -> None:
        """Collect and set aside what is in memory, then count without the collector.

        When it would run depends on everything before, and it would visit all of that.
        """
        self._had_collector = gc.isenabled()
        gc.collect()
        gc.disable()
        # What is frozen already must stay so: by a virtual cluster, and Python 3.12 begins so.
        self._is_frozen = not gc.get_freeze_count()
        if self._is_frozen:
            gc.freeze()
        self._undo = leave_out()
        self._is_on = True
        request(START_INSTRUMENTATION)

    async def end(self, timeout: float) -> dict[str, Any]:
        if not self._is_on:
            return {}
        request(STOP_INSTRUMENTATION)
        self._is_on = False
        self._undo.close()
        if self._is_frozen:
            gc.unfreeze()
        if self._had_collector:
            gc.enable()
        self.content = dumped()
        lines = (f"{SYMBOL}{start:x} {size:x} {name}\n" for start, size, name in symbols())
        self.content += "".join(lines).encode("utf-8", "replace")
        return {}


class CounterRecording(Recording):
    """A counter of the processor at work."""

    kind = KIND

    def __init__(self, client: str) -> None:
        """Open the counter.

        Raises:
            OSError: if the kernel lends none.
        """
        super().__init__(client)
        self._descriptor = open_counter(instructions())

    def begin(self) -> None:
        control(self._descriptor, ENABLE)

    async def end(self, timeout: float) -> dict[str, Any]:
        if self.content:
            return {}
        control(self._descriptor, DISABLE)
        count, enabled, running = struct.unpack("QQQ", os.read(self._descriptor, 24))
        record = {"schedprof_instructions": 1, "instructions": count}
        self.content = as_json({**record, "enabled_ns": enabled, "running_ns": running})
        return {}

    def remove(self) -> None:
        super().remove()
        os.close(self._descriptor)


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
    matches = [(path, form.fullmatch(path.name)) for path in out.parent.iterdir()]
    return [(int(match[1]), path) for path, match in matches if match]


def symbols() -> Iterator[tuple[int, int, str]]:
    """Yield address, size and name of what callgrind cannot name.

    These are the functions of Python, if the interpreter names them, and files with code.
    """
    yield from _python_functions()
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        if match := re.fullmatch(r"(\w+)-(\w+) r-x\S* \S+ \S+ \S+ +(/.*)", line):
            first, last = int(match[1], 16), int(match[2], 16)
            yield first, last - first, f"[{os.path.basename(match[3])}]"


def _python_functions() -> Iterator[tuple[int, int, str]]:
    """Yield where each Python function begins, as far as the interpreter tells it to profilers."""
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    modules = {
        names_in(module).get("__file__"): name
        for name, module in [*sys.modules.items()]
        if issubclass(type(module), ModuleType)
    }
    text = path.read_text(errors="replace") if path.exists() else ""
    for match in filter(None, map(ENTRY.fullmatch, NEXT_ENTRY.split(text))):
        begin, size, name = match.groups()
        qualname, _, file = name.removeprefix(PYTHON).partition(":")
        if file not in modules:
            modules[file] = module_of_file(file)
        named = f"{PYTHON}{modules[file]}:{qualname}"
        yield int(begin, 16), int(size, 16), " ".join(named.splitlines())


AUTO, COUNTER, VALGRIND = "auto", "counter", "valgrind"
"""By what instructions are counted; the first one takes valgrind where that emulates the process,
else the counter."""

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def start(by: str, client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to count; return a `token` or a `problem`."""
    if KIND in under_way(dask_scheduler):
        return {"problem": "busy"}
    recording: ValgrindRecording | CounterRecording
    if by != COUNTER and OUT in os.environ and request(RUNNING_ON_VALGRIND):
        recording = ValgrindRecording(client)
    elif by == VALGRIND:
        return {"problem": "not-emulated"}
    elif not is_known_here():
        return {"problem": "system", "system": f"{platform.system()} on {platform.machine()}"}
    else:
        try:
            recording = CounterRecording(client)
        except OSError as error:
            paranoid = PARANOID.read_text().strip() if PARANOID.exists() else ""
            return {"problem": "refused", "error": error.errno, "paranoid": paranoid}
    answer = begin(dask_scheduler, recording)
    recording.begin()
    return answer
