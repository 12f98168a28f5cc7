"""pip or uv, whichever this environment has."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_schedprof.environments.programs import run
from pytest_schedprof.errors import ClusterError

TELLING = (
    re.compile(r"connection broken by .*: ([^:]+?)'?\)?': /"),
    re.compile(r"^\s*(fatal: .*)$", re.MULTILINE),
    re.compile(r"^\s+(\w+(?:Error|Exception): .*)$", re.MULTILINE),
    re.compile(r"^ERROR: (Cannot install .*)$", re.MULTILINE),
)
"""What pip does not say last: of the network, of git, of a build, of contradictions."""

PIP_FLAGS = (
    "--no-deps",
    "--ignore-installed",  # what is here is seen, and were good enough
    "--no-input",
    "--disable-pip-version-check",
    "--retries=1",
)

ERROR = re.compile(r"^(?:error:|\s*\u00d7) (.*)$", re.MULTILINE | re.IGNORECASE)
CAUSE = re.compile(r"^\s*(?:cause:|Caused by:|╰─▶) (.*)$", re.MULTILINE)
"""As uv has it below its errors; the last one is the first of all."""

SETTINGS = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
"""Of pip's configuration the indexes count, and not where else it installs to."""


class Installer:
    """Installs packages alone: what they need in turn is found out by who asks."""

    def __init__(self, python: Path, deadline: float) -> None:
        self._python = str(python)
        self._deadline = deadline
        self._command = self._find()

    def install(self, arguments: Sequence[str]) -> None:
        """Packages, into the environment of the interpreter.

        Raises:
            ClusterError: if that fails, with the words that tell why.
        """
        status, said = self._run([*self._command, *arguments])
        if status:
            raise ClusterError(
                f"schedprof: {' '.join(arguments)!r} cannot be installed: {telling(said)}"
            )

    def _find(self) -> list[str]:
        """The pip of this environment, by its directory; where it has none, uv made it."""
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
                f"({telling(said)}); pip install uv"
            )
        return "-m", "pip"

    def _run(self, command: list[str]) -> tuple[int, str]:
        try:
            # There, since Python looks for modules where it is started, too.
            place = Path(self._python).parent
            return run(command, deadline=self._deadline, cwd=place, more=SETTINGS)
        except subprocess.TimeoutExpired:
            raise ClusterError(
                f"schedprof: {' '.join(command[-1:])!r} was not installed in time; raise "
                "--schedprof-timeout, or see whether the network answers"
            ) from None


def telling(said: str) -> str:
    """The words of pip or uv that tell why it failed, in one line."""
    for pattern in TELLING:
        if found := pattern.findall(said):
            return str(found[-1])
    errors = [each for each in ERROR.findall(said) if "for help visit" not in each]
    if causes := CAUSE.findall(said):
        return ": ".join([*errors[:1], causes[-1]])
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return str((errors or lines or ["it said nothing"])[-1])
