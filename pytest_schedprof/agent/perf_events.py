"""Opens counters of the kernel's, of this thread, on whichever processor it runs."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
import threading

CALLS = {"x86_64": 298, "aarch64": 241}
"""Number of the system call perf_event_open, by the processor."""

HARDWARE, SOFTWARE = 0, 1
INSTRUCTIONS, TASK_CLOCK = 1, 1
"""A counter of the processor's, and one of the kernel's: the thread's CPU time in nanoseconds."""

ATTRIBUTES = 112
"""Size of the structure that describes a counter, in its fifth version; the kernel knows later
ones, too."""

DISABLED, NO_KERNEL, NO_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
TIME_ENABLED, TIME_RUNNING = 1 << 0, 1 << 1
CLOSE_ON_EXEC = 8
ENABLE, DISABLE, REFRESH = 0x2400, 0x2401, 0x2402
"""The last one enables a counter until it was due as often as its argument says."""

PERIOD = 0x40082404
"""Sets how long it is until a counter is due."""

SET_SIGNAL, SET_OWNER_THREAD, THREAD = 10, 15, 0
"""Linux's F_SETSIG, F_SETOWN_EX and F_OWNER_TID, which Python has no names for."""


def is_known_here() -> bool:
    """Whether the system call is known for this system."""
    return sys.platform == "linux" and platform.machine() in CALLS


def control(descriptor: int, request: int, argument: int = 0) -> None:
    """Switch a counter on or off."""
    from fcntl import ioctl  # not on every system

    ioctl(descriptor, request, argument)


def set_interval(descriptor: int, interval: float) -> None:
    """Let a clock be due each `interval` seconds from now on."""
    from fcntl import ioctl

    ioctl(descriptor, PERIOD, struct.pack("Q", round(interval * 1e9)))


def instructions() -> bytes:
    """Describe a counter of instructions in user space."""
    flags = DISABLED | NO_KERNEL | NO_HYPERVISOR
    return _described(HARDWARE, INSTRUCTIONS, 0, TIME_ENABLED | TIME_RUNNING, flags)


def cpu_clock(interval: float) -> bytes:
    """Describe a clock of CPU time, in the kernel too, that is due each `interval` seconds."""
    return _described(SOFTWARE, TASK_CLOCK, round(interval * 1e9), 0, DISABLED)


def _described(kind: int, event: int, period: int, read: int, flags: int) -> bytes:
    is_due_each_time = 1
    fields = (kind, ATTRIBUTES, event, period, 0, read, flags, is_due_each_time)
    return struct.pack("=IIQQQQQI", *fields).ljust(ATTRIBUTES, b"\0")


def open_counter(described: bytes) -> int:
    """Open a counter and return its descriptor.

    Raises:
        OSError: if the kernel lends none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_long(CALLS[platform.machine()])
    descriptor: int = libc.syscall(
        number,
        ctypes.create_string_buffer(described, ATTRIBUTES),
        ctypes.c_long(0),
        ctypes.c_long(-1),
        ctypes.c_long(-1),
        CLOSE_ON_EXEC,
    )
    if descriptor < 0:
        number_of_error = ctypes.get_errno()
        raise OSError(number_of_error, os.strerror(number_of_error))
    return descriptor


def send_signals(descriptor: int, number: signal.Signals) -> None:
    """Let this thread get a signal each time that the counter is due."""
    import fcntl  # not on every system

    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
    fcntl.fcntl(descriptor, SET_SIGNAL, number)
    owner = struct.pack("ii", THREAD, threading.get_native_id())
    fcntl.fcntl(descriptor, SET_OWNER_THREAD, owner)
