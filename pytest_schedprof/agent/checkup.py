"""What the doctor asks a process about itself and its machine."""

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
"""Linux's clock that goes on with the kernel's tick; Python has no name for it."""


def examine() -> dict[str, Any]:
    """Identity and surroundings of this process."""
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
    """Empty where there is none that can be written to, as on a read-only file system."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return ""


def user() -> str:
    """Its name, empty where the process runs as a number that nobody has."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return ""


def tick_hz() -> float:
    """How often the kernel's clock ticks (CONFIG_HZ), 0 where it does not say."""
    if sys.platform != "linux":
        return 0.0
    return round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE), 3)


def free_bytes(directory: str) -> int:
    """Room for files of this user there."""
    return shutil.disk_usage(directory).free if directory else 0


def is_in_main_thread() -> bool:
    """Of a scheduler, which calls this in its event loop."""
    return threading.current_thread() is threading.main_thread()


def now() -> float:
    """By this machine's clock."""
    return time.time()
