"""Run a program of another interpreter, with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

OURS = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__")
"""Environment variables that would make another interpreter import packages of this one."""


def environment_elsewhere() -> dict[str, str]:
    """Return this process's environment variables for another interpreter.

    Variables of this interpreter are left out, and its programs come last on the PATH.
    """
    found = {name: value for name, value in os.environ.items() if name not in OURS}
    programs = (found.get("PATH"), sysconfig.get_path("scripts"))
    return {**found, "PATH": os.pathsep.join(filter(None, programs))}


def run(
    command: Sequence[str], *, deadline: float, cwd: Path, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a program and return its exit status and its output.

    Raises:
        subprocess.TimeoutExpired: if it did not end by the deadline and was killed.
        OSError: if there is no such program, or it cannot run here.
    """
    # A file, since children of the program might hold a pipe open.
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**environment_elsewhere(), **(more or {})},
            cwd=cwd,
            start_new_session=True,
        )
        try:
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            _kill(process)
            raise
        said.seek(0)
        return status, said.read().decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its children."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
