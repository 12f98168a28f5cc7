"""Client requests: how a program tells valgrind, which emulates it, what to do.

A request is a sequence of instructions that does nothing on a processor. The agent has no compiler,
so it writes these instructions into memory of its own.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Callable
from functools import cache

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


@cache
def _function() -> Callable[[int, int], int] | None:
    code = CODES.get(platform.machine())
    if code is None or sys.platform != "linux":
        return None
    allowed = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=allowed)
    except OSError:  # a system that lets nobody write code
        return None
    memory.write(bytes.fromhex(code))
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


def is_emulated() -> bool:
    """Return whether valgrind emulates this process."""
    return request(RUNNING_ON_VALGRIND) > 0
