"""The interpreter that a user asks for, asked in turn whether it can run a scheduler."""

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

OLDEST_PYTHON = "3.10"
OLDEST_DISTRIBUTED = "2024.8.0"

MARK = "schedprof: "

QUESTION = """
import json, platform, sys
# Where it is started may be a package's checkout.
sys.path[:] = [path for path in sys.path if path]
told = {"implementation": platform.python_implementation(), "python": platform.python_version()}
try:
    import dask, distributed
    told["versions"] = {"dask": dask.__version__, "distributed": distributed.__version__}
except Exception as error:
    told["trouble"] = "%s: %s" % (type(error).__name__, str(error).split("\\n")[0])
print("\\nschedprof: " + json.dumps(told))
"""
"""Understood by every Python, so that an old one can say how old it is."""

ASKING_S = 30.0
MOST_WORDS = 80


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One that can run a scheduler and its workers."""

    path: Path
    python: str
    """Its version."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of dask and distributed there."""


def interpreter_for(spec: str, cache: Path, timeout_s: float) -> Interpreter:
    """The interpreter that a text names, or one with the packages that it names.

    Args:
        spec: an interpreter or its environment's directory; or requirements and source
            checkouts, for which an environment is made.
        cache: directory of environments that were made.
        timeout_s: for making one.

    Raises:
        SettingsError: for what is no interpreter, or none that a scheduler can run with.
        ClusterError: if an environment could not be made.
    """
    wanted = read_wanted(spec)
    if isinstance(wanted, Path):
        return ask(wanted)
    deadline = time.monotonic() + timeout_s
    return ask(environment_of(wanted, cache, deadline), spec.strip())


def ask(path: Path, name: str = "") -> Interpreter:
    """What it says of itself.

    Args:
        path: of the interpreter.
        name: that messages call it by, if not by its path.
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
    if Version(versions["distributed"]) < Version(OLDEST_DISTRIBUTED):
        raise _unfit(
            label,
            f"has distributed {versions['distributed']}; it must be {OLDEST_DISTRIBUTED} or newer",
        )
    return Interpreter(path, python, versions)


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
