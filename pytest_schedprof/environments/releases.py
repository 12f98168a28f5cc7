"""Ask the package index which releases a package has."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from packaging.version import InvalidVersion, Version

from pytest_schedprof.environments.installer import cause_of
from pytest_schedprof.environments.programs import run
from pytest_schedprof.errors import ClusterError

ASKING_S = 120.0
LINE = re.compile(r"^Available versions: (.*)$", re.MULTILINE)


def releases_of(package: str) -> list[Version]:
    """Return the releases that fit this Python, the oldest first; no pre-releases.

    Raises:
        ClusterError: if the index does not answer, or has no such package.
    """
    deadline = time.monotonic() + ASKING_S
    try:
        with tempfile.TemporaryDirectory(prefix="schedprof-index-") as place:
            command = [*_pip(Path(place), deadline), "index", "versions", package]
            options = ["--no-input", "--disable-pip-version-check", "--retries=1"]
            status, said = run([*command, *options], deadline=deadline, cwd=Path(place))
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"schedprof: the package index did not tell the releases of {package!r} within "
            f"{ASKING_S:g} s; name them yourself: --releases=A,B,C"
        ) from None
    told = LINE.search(said)
    if status or not told:
        raise ClusterError(
            f"schedprof: the package index does not tell the releases of {package!r} "
            f"({cause_of(said)}); name them yourself: --releases=A,B,C"
        )
    return sorted(version for text in told[1].split(",") if (version := _version(text)))


def _version(text: str) -> Version | None:
    try:
        return Version(text.strip())
    except InvalidVersion:
        return None


def _pip(place: Path, deadline: float) -> list[str]:
    """Return the command of this environment's pip, or of a new one: uv does not tell releases."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    run([sys.executable, "-m", "venv", str(place)], deadline=deadline, cwd=place)
    inside = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    return [str(place / inside), "-m", "pip"]
