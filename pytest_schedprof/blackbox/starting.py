"""Starts a process that writes a run: its work and a slow disk are not the scheduler's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WRITER = "pytest_schedprof.blackbox.writing"

WRITING_S = 60.0


def start_writer(content: bytes, directory: Path, keep: int) -> str:
    """Write a packed ring as a run; return its path.

    Raises:
        OSError: it could not be written, or no process be started.
    """
    command = [sys.executable, "-m", WRITER, str(directory.absolute()), str(keep)]
    try:
        done = subprocess.run(
            command,
            input=content,
            capture_output=True,
            timeout=WRITING_S,
            check=False,
            start_new_session=True,  # Ctrl-C ends the scheduler, which then waits for the last run
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{directory} took longer than {WRITING_S:g} s") from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(told[-1] if told else f"its process ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace").strip()
