"""Facts about a process and its machine, for `schedprof doctor`."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import threading
import time
from typing import Any

from .facts import versions

CLOCK_MONOTONIC_COARSE = 6
"""Linux's clock that advances with the kernel's tick; Python has no name for it."""


def examine() -> dict[str, Any]:
    """Return identity and environment of this process."""
    directory = temporary_directory()
    return {
        "pid": os.getpid(),
        "uid": os.getuid() if hasattr(os, "getuid") else -1,
        "user": user(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "interpreter": sys.executable,
        "platform": platform.platform(),
        "versions": versions(),
        "tick_hz": tick_hz(),
        "directory": directory,
        "free_bytes": free_bytes(directory),
    }


def temporary_directory() -> str:
    """Return the directory, or "" if none is writable, as on a read-only file system."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return ""


def user() -> str:
    """Return the user's name, or "" if the user ID has none."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return ""


def tick_hz() -> float:
    """Return the frequency of the kernel's tick (CONFIG_HZ), or 0 if it is unknown."""
    if sys.platform != "linux":
        return 0.0
    return round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE), 3)


def free_bytes(directory: str) -> int:
    """Return the free space in a directory."""
    return shutil.disk_usage(directory).free if directory else 0


def is_in_main_thread() -> bool:
    """Whether the event loop, which calls this, is in the main thread."""
    return threading.current_thread() is threading.main_thread()


def now() -> float:
    """Return the time by this machine's clock."""
    return time.time()
