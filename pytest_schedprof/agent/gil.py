"""Samples from outside whether the event loop's thread works, is idle, or waits for the GIL.

A process beside this one reads which system call the thread is in. Who waits for the GIL waits for
a futex within `_PyRuntime`, the interpreter's own variables.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import platform
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .child import allow_tracing
from .recordings import Recording, as_json, begin, under_way, unnamed_memory

FUTEX = {"x86_64": 202, "aarch64": 98}
"""Number of the system call futex, by the processor."""

IDLE = {"x86_64": (232, 281, 441, 7, 271, 23, 270), "aarch64": (22, 441, 73, 72)}
"""Those by which an event loop waits for work: epoll, poll and select in all forms."""

INTERVAL_S = 0.004

NAMES = ("working", "waiting", "idle")

COUNTS = struct.Struct("QQQ")
"""Samples of each kind, in memory that both processes share."""

NOT_PERMITTED = 3
"""Exit status of the sampler if it may not look at this process."""

ENDING_S = 2.0

PROOF_S = 5.0
"""How long the proof may keep the event loop at most."""

SAMPLER = f"""
import mmap, os, struct, sys, time
pid, thread, memory, first, last, futex, *idle = map(int, sys.argv[1:])
counts = mmap.mmap(memory, {COUNTS.size})
found = [0, 0, 0]
try:
    file = os.open(f"/proc/{{pid}}/task/{{thread}}/syscall", os.O_RDONLY)
    os.pread(file, 200, 0)
except PermissionError:
    sys.exit({NOT_PERMITTED})
while os.getppid() == pid:
    call, *arguments = os.pread(file, 200, 0).split() or [b"running"]
    number = int(call) if call.isdigit() else -1
    if number == futex:
        found[1 if first <= int(arguments[0], 16) < last else 2] += 1
    else:
        found[2 if number in idle else 0] += 1
    struct.pack_into("{COUNTS.format}", counts, 0, *found)
    time.sleep({INTERVAL_S})
"""
"""A thread that waits for another lock than the GIL is idle."""


class Place(ctypes.Structure):
    """`Dl_info`: the symbol that an address belongs to."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class Symbol(ctypes.Structure):
    """`Elf64_Sym`."""

    _fields_ = (
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_ubyte),
        ("other", ctypes.c_ubyte),
        ("section", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


def runtime() -> tuple[int, int] | None:
    """Return where the interpreter's variables begin and end; None if that cannot be found."""
    try:
        begin = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        find = ctypes.CDLL(None).dladdr1  # of glibc
    except (AttributeError, ValueError):
        return None
    place, symbol = Place(), ctypes.POINTER(Symbol)()
    wants_symbol = 1
    found = find(ctypes.c_void_p(begin), ctypes.byref(place), ctypes.byref(symbol), wants_symbol)
    if not (found and symbol and place.name == b"_PyRuntime"):
        return None
    return begin, begin + int(symbol.contents.size)


class GilRecording(Recording):
    """A sampler at work."""

    kind = "gil"

    def __init__(self, client: str, place: tuple[int, int]) -> None:
        super().__init__(client)
        self.memory = unnamed_memory()
        os.ftruncate(self.memory, COUNTS.size)
        self.counts = mmap.mmap(self.memory, COUNTS.size)
        self.before = (0, 0, 0)
        machine = platform.machine()
        told = (os.getpid(), threading.get_native_id(), self.memory, *place)
        numbers = (*told, FUTEX[machine], *IDLE[machine])
        allow_tracing(by_descendants=True)
        self.sampler = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SAMPLER, *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[self.memory],
            start_new_session=True,
        )

    def read(self) -> tuple[int, int, int]:
        """Return the samples so far."""
        working, waiting, idle = COUNTS.unpack(self.counts[: COUNTS.size])
        return working, waiting, idle

    async def prove(self, deadline: float) -> str:
        """Make this thread wait for the GIL until a sample shows it; return a problem or ""."""
        while not any(self.read()):
            if (status := self.sampler.poll()) is not None:
                return "refused" if status == NOT_PERMITTED else "failed"
            if time.monotonic() > deadline:
                return "failed"
            await asyncio.sleep(0.002)
        if not contend(lambda: self.read()[1] > 0, min(deadline, time.monotonic() + PROOF_S)):
            return "unseen"
        self.before = self.read()
        return ""

    async def end(self, timeout: float) -> dict[str, Any]:
        """End the sampler, and keep what it saw since the recording began."""
        if self.content:
            return {}
        after = self.read()
        is_early = self.sampler.poll() is not None
        seen = [now - before for before, now in zip(self.before, after, strict=True)]
        record = dict(zip(NAMES, seen, strict=True))
        self.content = as_json({"schedprof_gil": 1, **record, "early": is_early})
        self.sampler.terminate()
        deadline = time.monotonic() + ENDING_S
        while self.sampler.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
        return {}

    def remove(self) -> None:
        """Make sure that the sampler is gone, and free the memory."""
        super().remove()
        if self.sampler.poll() is None:
            self.sampler.kill()
            self.sampler.wait()
        allow_tracing(by_descendants=False)
        self.counts.close()
        os.close(self.memory)


def contend(is_seen: Callable[[], bool], deadline: float) -> bool:
    """Compete with another thread for the GIL until it is seen; return whether it was."""
    is_over = threading.Event()

    def compete() -> None:
        while not is_over.is_set():
            pass

    rival = threading.Thread(target=compete, name="schedprof-gil", daemon=True)
    rival.start()
    try:
        while not is_seen() and time.monotonic() < deadline:
            pass
    finally:
        is_over.set()
        rival.join()
    return is_seen()


async def start(client: str, timeout: float, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to sample, once it is proven that waits are seen; return a `token` or a `problem`."""
    if GilRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    if not hasattr(dask_scheduler, "stream_handlers"):  # the test's own process
        return {"problem": "shared"}
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return {"problem": "none"}
    if sys.platform != "linux" or platform.machine() not in FUTEX or (place := runtime()) is None:
        return {"problem": "system", "system": f"{platform.system()} on {platform.machine()}"}
    recording = GilRecording(client, place)
    try:
        problem = await recording.prove(time.monotonic() + timeout)
    except BaseException:
        recording.remove()
        raise
    if problem:
        recording.remove()
        return {"problem": problem}
    return begin(dask_scheduler, recording)
