"""Install packages into an environment with pip or uv, whichever is available here."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_schedprof.environments.programs import run
from pytest_schedprof.errors import ClusterError

PIP_CAUSES = (
    re.compile(r"connection broken by .*: ([^:]+?)'?\)?': /"),
    re.compile(r"^\s*(fatal: .*)$", re.MULTILINE),
    re.compile(r"^\s+(\w+(?:Error|Exception): .*)$", re.MULTILINE),
    re.compile(r"^ERROR: (Cannot install .*)$", re.MULTILINE),
)
"""Causes that are not in the last line of pip's output: network, git, builds, conflicts."""

PIP_FLAGS = (
    "--no-deps",
    "--ignore-installed",  # packages of this side are visible, and would count as installed
    "--no-input",
    "--disable-pip-version-check",
    "--retries=1",
)

ERROR = re.compile(r"^(?:error:|\s*\u00d7) (.*)$", re.MULTILINE | re.IGNORECASE)
CAUSE = re.compile(r"^\s*(?:cause:|Caused by:|╰─▶) (.*)$", re.MULTILINE)
"""Causes below an error of uv; the last one is the root cause."""

SETTINGS = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
"""Variables that override pip's configuration of where to install; its indexes still count."""


class Installer:
    """Installs packages without their dependencies; the caller finds out which are missing."""

    def __init__(self, python: Path, deadline: float) -> None:
        self._python = str(python)
        self._deadline = deadline
        self._command = self._find()

    def install(self, arguments: Sequence[str]) -> None:
        """Install packages into the environment of the interpreter.

        Raises:
            ClusterError: if that fails, with the cause from the output.
        """
        status, said = self._run([*self._command, *arguments])
        if status:
            raise ClusterError(
                f"schedprof: {' '.join(arguments)!r} cannot be installed: {cause_of(said)}"
            )

    def _find(self) -> list[str]:
        """Return the start of the command: this environment's pip, or uv, or a new pip there."""
        pip = importlib.util.find_spec("pip")
        if pip is None or pip.origin is None:
            if uv := shutil.which("uv"):
                return [uv, "pip", "install", "--python", self._python, "--no-deps"]
            return [self._python, *self._bring_pip(), "install", *PIP_FLAGS]
        return [self._python, str(Path(pip.origin).parent), "install", *PIP_FLAGS]

    def _bring_pip(self) -> tuple[str, str]:
        status, said = self._run([self._python, "-m", "ensurepip"])
        if status:
            raise ClusterError(
                "schedprof: neither pip nor uv is here to make an environment with "
                f"({cause_of(said)}); pip install uv"
            )
        return "-m", "pip"

    def _run(self, command: list[str]) -> tuple[int, str]:
        try:
            # In its own directory: Python also imports modules from the working directory.
            place = Path(self._python).parent
            return run(command, deadline=self._deadline, cwd=place, more=SETTINGS)
        except subprocess.TimeoutExpired:
            raise ClusterError(
                f"schedprof: {' '.join(command[-1:])!r} was not installed in time; raise "
                "--schedprof-timeout, or see whether the network answers"
            ) from None


def cause_of(said: str) -> str:
    """Return the cause of a failure from the output of pip or uv, in one line."""
    for pattern in PIP_CAUSES:
        if found := pattern.findall(said):
            return str(found[-1])
    errors = [each for each in ERROR.findall(said) if "for help visit" not in each]
    if causes := CAUSE.findall(said):
        return ": ".join([*errors[:1], causes[-1]])
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return str((errors or lines or ["it said nothing"])[-1])
