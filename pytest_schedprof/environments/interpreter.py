"""Find the interpreter for `--schedprof-against` and check that it can run a scheduler."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

from pytest_schedprof.environments.cache import environment_of
from pytest_schedprof.environments.programs import run
from pytest_schedprof.environments.wanted import FORMS, read_wanted
from pytest_schedprof.errors import ClusterError, SettingsError

OLDEST_PYTHON = "3.11"
OLDEST_DISTRIBUTED = "2024.8.0"

MARK = "schedprof: "

QUESTION = """
import json, platform, sys
# The working directory may be a package's checkout.
sys.path[:] = [path for path in sys.path if path]
told = {"implementation": platform.python_implementation(), "python": platform.python_version()}
try:
    import dask, distributed
    told["versions"] = {"dask": dask.__version__, "distributed": distributed.__version__}
except Exception as error:
    told["trouble"] = "%s: %s" % (type(error).__name__, str(error).split("\\n")[0])
print("\\nschedprof: " + json.dumps(told))
"""
"""A program for every version of Python, so that an old one can report its version."""

ASKING_S = 30.0
MOST_WORDS = 80


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that can run a scheduler and its workers."""

    path: Path
    python: str
    """Version of Python."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of dask and distributed there."""


def interpreter_for(spec: str, cache: Path, timeout_s: float) -> Interpreter:
    """Return the interpreter that a text names, or one with the packages that it names.

    Args:
        spec: an interpreter or its environment's directory; or requirements and source
            checkouts, for which an environment is made.
        cache: directory of cached environments.
        timeout_s: for making a new environment.

    Raises:
        SettingsError: if it is no interpreter, or none that can run a scheduler.
        ClusterError: if an environment could not be made.
    """
    wanted = read_wanted(spec)
    if isinstance(wanted, Path):
        return check_interpreter(wanted)
    deadline = time.monotonic() + timeout_s
    return check_interpreter(environment_of(wanted, cache, deadline), spec.strip())


def check_interpreter(path: Path, name: str = "") -> Interpreter:
    """Run an interpreter to ask for its versions, and check them.

    Args:
        path: path of the interpreter.
        name: name for messages, by default the path.

    Raises:
        SettingsError: if it cannot run a scheduler.
        ClusterError: if it does not answer.
    """
    label = repr(name or str(path))
    told = _told(path, label)
    python = str(told["python"])
    if told["implementation"] != "CPython":
        raise _unfit(label, f"is {told['implementation']}; profilers know CPython alone")
    if Version(python) < Version(OLDEST_PYTHON):
        raise _unfit(label, f"is Python {python}; it must be {OLDEST_PYTHON} or newer")
    if "trouble" in told:
        raise _unfit(
            label,
            f"cannot import distributed ({told['trouble']}); install it there: "
            f"{path} -m pip install distributed",
        )
    versions = told["versions"]
    if _is_too_old(Version(versions["distributed"])):
        raise _unfit(
            label,
            f"has distributed {versions['distributed']}; it must be {OLDEST_DISTRIBUTED} or newer",
        )
    return Interpreter(path, python, versions)


def _is_too_old(version: Version) -> bool:
    """Return whether a release is too old; a checkout without tags has a version of 0."""
    return Version(OLDEST_DISTRIBUTED) > version and version.release != (0,)


def can_run_tests(path: Path) -> bool:
    """Return whether an interpreter can import pytest and this package."""
    try:
        deadline = time.monotonic() + ASKING_S
        command = [str(path), "-c", "import pytest, pytest_schedprof"]
        return run(command, deadline=deadline, cwd=path.parent)[0] == 0
    except (subprocess.TimeoutExpired, OSError):
        return False


def _told(path: Path, label: str) -> Mapping[str, Any]:
    if not path.exists():
        raise SettingsError(f"schedprof: there is no interpreter at {str(path)!r}; give {FORMS}")
    try:
        deadline = time.monotonic() + ASKING_S
        _, said = run([str(path), "-c", QUESTION], deadline=deadline, cwd=path.parent)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"schedprof: {label} did not say within {ASKING_S:g} s which Python it is"
        ) from None
    except OSError as error:
        raise _unfit(label, f"is no Python ({error.strerror}); give {FORMS}") from None
    answers = [line for line in said.splitlines() if line.startswith(MARK)]
    try:
        answer: Mapping[str, Any] = json.loads(answers[-1].removeprefix(MARK))
    except (IndexError, ValueError):
        words = (said.strip().splitlines() or ["nothing"])[-1][:MOST_WORDS]
        raise _unfit(label, f"is no Python (it said {words!r}); give {FORMS}") from None
    return answer


def _unfit(label: str, why: str) -> SettingsError:
    return SettingsError(f"schedprof: {label} {why}")
