"""Restrictions of hardened machines, applied for real; each function runs inside the scheduler."""

from __future__ import annotations

from typing import Any

EPERM = 0x00050000 | 1
KILL = 0x80000000


def filter_tracing(action: int = EPERM, dask_scheduler: Any = None) -> None:
    """Make the kernel refuse ptrace and process_vm_readv from now on, as hardened containers do."""
    refuse_calls({"x86_64": (101, 310), "aarch64": (117, 270)}, action)


def filter_counters(dask_scheduler: Any = None) -> None:
    """Make the kernel refuse perf_event_open from now on, as containers do by default."""
    refuse_calls({"x86_64": (298,), "aarch64": (241,)}, EPERM)


def refuse_calls(numbers: dict[str, tuple[int, ...]], action: int) -> None:
    """Make the kernel refuse system calls, given by the processor."""
    import ctypes
    import platform
    import struct

    machine = platform.machine()
    calls = numbers[machine]
    architecture = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    load_arch, load_call, allow = (0x20, 0, 0, 4), (0x20, 0, 0, 0), (0x06, 0, 0, 0x7FFF0000)
    refuse = (0x06, 0, 0, action)
    program = [
        load_arch,
        (0x15, 0, len(calls) + 1, architecture),
        load_call,
        *((0x15, len(calls) - place, 0, call) for place, call in enumerate(calls)),
        allow,
        refuse,
    ]
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, filter_program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP


def drop_sys_ptrace(dask_scheduler: Any = None) -> None:
    """Drop CAP_SYS_PTRACE for the scheduler and its children, as in a default container."""
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", 0x20080522, 0)  # version 3 of the format, this thread
    words = ctypes.create_string_buffer(24)
    assert libc.capget(header, words) == 0
    masks = [mask & ~(1 << 19) for mask in struct.unpack("3I", words.raw[:12])]
    lesser = struct.pack("3I", *masks) + words.raw[12:]
    is_bound = libc.prctl(24, 19, 0, 0, 0) == 0  # PR_CAPBSET_DROP
    assert is_bound or ctypes.get_errno() == 1  # without root there is nothing to drop
    assert libc.capset(header, lesser) == 0


def protect(dask_scheduler: Any = None) -> None:
    """Make the process non-dumpable, as the kernel does for a program with capabilities."""
    import ctypes

    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
