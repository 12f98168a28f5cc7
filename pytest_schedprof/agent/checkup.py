"""Facts about a process and its machine, for `schedprof doctor`."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import subprocess
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
    try:
        directory = tempfile.gettempdir()
    except FileNotFoundError:  # none is writable, as on a read-only file system
        directory = ""
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
    return shutil.disk_usage(directory).free if directory else 0


def is_in_main_thread() -> bool:
    """Whether the event loop, which calls this, is in the main thread."""
    return threading.current_thread() is threading.main_thread()


def now() -> float:
    """Return the time by this machine's clock."""
    return time.time()


PROBE = """
import ctypes, errno, os
with open("/proc/self/status") as status:
    print(*(line for line in status if line.startswith("CapEff:")), end="")
libc = ctypes.CDLL(None, use_errno=True)
calls = (
    ("ptrace", (7, 0, None, None), errno.ESRCH),  # go on, process 0: there is none
    ("process_vm_readv", (os.getpid(), None, 0, None, 0, 0), 0),  # nothing, of myself
)
for name, arguments, expected in calls:
    print(name, end=": ", flush=True)
    ctypes.set_errno(0)
    getattr(libc, name)(*arguments)
    number = ctypes.get_errno()
    print("" if number == expected else errno.errorcode.get(number, number), flush=True)
"""
"""Makes the system calls that py-spy needs in a form that does nothing and needs no permission: if
they are refused, a filter did it. Runs in a child, because a filter may also kill, and a child may
have fewer capabilities than its parent."""

PROBE_S = 5.0
CONTAINER_VARIABLE = "container"
"""Set by systemd-nspawn, LXC and podman."""
CAP_SYS_PTRACE = 19
GET_DUMPABLE = 3


def privileges() -> dict[str, Any]:
    """Return all facts that decide whether py-spy, as a child of this process, can trace it."""
    status = _fields(_text("/proc/self/status"))
    probed = probe() if sys.platform == "linux" else {}
    capabilities = probed.pop("CapEff", "0")
    return {
        "platform": sys.platform,
        "uid": os.getuid() if hasattr(os, "getuid") else -1,
        "interpreter": os.path.realpath(sys.executable),
        "container": container(),
        "refused_calls": {call: answer for call, answer in probed.items() if answer},
        "seccomp": int(status.get("Seccomp", "0")),
        "may_ptrace": _holds(capabilities, CAP_SYS_PTRACE),
        "was_given_ptrace": _holds(status.get("CapBnd", "0"), CAP_SYS_PTRACE),
        "no_new_privileges": status.get("NoNewPrivs") == "1",
        "ptrace_scope": int(_text("/proc/sys/kernel/yama/ptrace_scope") or -1),
        # Not if the process changed its user, or its program has capabilities of its own.
        "is_dumpable": sys.platform != "linux"
        or ctypes.CDLL(None).prctl(GET_DUMPABLE, 0, 0, 0, 0) == 1,
        "security_label": _text("/proc/self/attr/current"),
    }


def container() -> str:
    """Return the kind of container, such as `kubernetes`, or "" if this seems to be none."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    marks = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
    kinds = [kind for path, kind in marks.items() if os.path.exists(path)]
    return kinds[0] if kinds else os.environ.get(CONTAINER_VARIABLE, "")


def probe() -> dict[str, str]:
    """Return a child's capabilities, and for each system call the error or signal it caused."""
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return {}  # nothing is known about the calls
    answers = _fields(child.stdout.decode())
    if child.returncode == -signal.SIGSYS and answers:  # the last one was never answered
        answers[list(answers)[-1]] = "SIGSYS"
    return answers


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def _holds(mask: str, capability: int) -> bool:
    return bool(int(mask, 16) >> capability & 1)


def _text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read().strip("\n\0 ")
    except OSError:
        return ""
