"""Counts the instructions of the event loop's thread by a counter of the processor."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path
from typing import Any

from .recordings import Recording, as_json, begin, under_way

CALLS = {"x86_64": 298, "aarch64": 241}
"""Number of the system call perf_event_open, by the processor."""

HARDWARE, INSTRUCTIONS = 0, 1
ATTRIBUTES = 112
"""Size of the structure that describes a counter, in its fifth version; the kernel knows later
ones, too."""

DISABLED, NO_KERNEL, NO_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
TIME_ENABLED, TIME_RUNNING = 1 << 0, 1 << 1
CLOSE_ON_EXEC = 8
ENABLE, DISABLE = 0x2400, 0x2401

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class PerfcountRecording(Recording):
    """A counter at work."""

    kind = "perfcount"

    def __init__(self, client: str, descriptor: int) -> None:
        super().__init__(client)
        self._descriptor = descriptor
        control(descriptor, ENABLE)

    async def end(self, timeout: float) -> dict[str, Any]:
        """Read the counter, and for how long it counted."""
        if self.content:
            return {}
        control(self._descriptor, DISABLE)
        count, enabled, running = struct.unpack("QQQ", os.read(self._descriptor, 24))
        record = {"schedprof_perfcount": 1, "instructions": count}
        self.content = as_json({**record, "enabled_ns": enabled, "running_ns": running})
        return {}

    def remove(self) -> None:
        """Close the counter."""
        super().remove()
        os.close(self._descriptor)


def control(descriptor: int, what: int) -> None:
    """Switch a counter on or off."""
    from fcntl import ioctl  # not on every system

    ioctl(descriptor, what, 0)


def attributes() -> bytes:
    """Return the description of a counter of instructions in user space."""
    fields = (
        HARDWARE,
        ATTRIBUTES,
        INSTRUCTIONS,
        0,  # no samples
        0,
        TIME_ENABLED | TIME_RUNNING,
        DISABLED | NO_KERNEL | NO_HYPERVISOR,
    )
    return struct.pack("=IIQQQQQ", *fields).ljust(ATTRIBUTES, b"\0")


def open_counter() -> int:
    """Open a counter of this thread, on whichever processor it runs.

    Raises:
        OSError: if the kernel lends none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    described = ctypes.create_string_buffer(attributes(), ATTRIBUTES)
    number = ctypes.c_long(CALLS[platform.machine()])
    descriptor: int = libc.syscall(
        number, described, ctypes.c_long(0), ctypes.c_long(-1), ctypes.c_long(-1), CLOSE_ON_EXEC
    )
    if descriptor < 0:
        number_of_error = ctypes.get_errno()
        raise OSError(number_of_error, os.strerror(number_of_error))
    return descriptor


def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to count; return a `token` or a `problem`."""
    if PerfcountRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    if sys.platform != "linux" or platform.machine() not in CALLS:
        return {"problem": "system", "system": f"{platform.system()} on {platform.machine()}"}
    try:
        descriptor = open_counter()
    except OSError as error:
        paranoid = PARANOID.read_text().strip() if PARANOID.exists() else ""
        return {"problem": "refused", "error": error.errno, "paranoid": paranoid}
    return begin(dask_scheduler, PerfcountRecording(client, descriptor))
