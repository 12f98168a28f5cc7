"""A program of another interpreter, which ends in time and with this session."""

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
"""Variables that would lead another interpreter to packages of this one."""


def environment_elsewhere() -> dict[str, str]:
    """This process's, without what is for this interpreter alone; its programs come last."""
    found = {name: value for name, value in os.environ.items() if name not in OURS}
    programs = (found.get("PATH"), sysconfig.get_path("scripts"))
    return {**found, "PATH": os.pathsep.join(filter(None, programs))}


def run(
    command: Sequence[str], *, deadline: float, cwd: Path, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Its exit status and all that it said.

    Raises:
        subprocess.TimeoutExpired: if it did not end by the deadline; then it was killed.
        OSError: if there is no such program, or none that can run here.
    """
    # A file, for what the program started in turn might hold a pipe open.
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
    """With all that it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
