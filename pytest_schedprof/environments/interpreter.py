"""Find or make the interpreter that `--schedprof-against` names, and check what it can run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from pytest_schedprof.environments.making import BUILD_FILES, Packages, environment_of, run
from pytest_schedprof.errors import ClusterError, SettingsError

OLDEST_PYTHON = "3.11"
OLDEST_DISTRIBUTED = "2024.8.0"

FORMS = (
    "a Python interpreter, an environment's directory, a requirement such as "
    "distributed==2026.7.0, a source checkout, or settings such as workers=200"
)

COMMAND = re.compile(r"python[\d.]*(\.exe)?")
LOOSE = re.compile(r"\s*([<>=!~]=?=?|@)\s*")
SEPARATOR = re.compile(r"(?:,\s*|\s+)(?![<>=!~])")

MARK = "schedprof: "

QUESTION = """
import json, platform, sys
# The working directory may be a package's checkout.
sys.path[:] = [path for path in sys.path if path]
facts = {"implementation": platform.python_implementation(), "python": platform.python_version()}
try:
    import dask, distributed
    facts["versions"] = {"dask": dask.__version__, "distributed": distributed.__version__}
    import pytest, pytest_schedprof
    facts["tests"] = True
except Exception as error:
    facts["trouble"] = "%s: %s" % (type(error).__name__, str(error).split("\\n")[0])
print("\\nschedprof: " + json.dumps(facts))
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
    has_plugin: bool = False
    """Whether it can run pytest with this plugin."""


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
    named = read_spec(spec)
    if isinstance(named, Path):
        return check_interpreter(named)
    deadline = time.monotonic() + timeout_s
    return check_interpreter(environment_of(named, cache, deadline), spec.strip())


def read_spec(spec: str) -> Path | Packages:
    """Return the path of an existing interpreter, or packages.

    Raises:
        SettingsError: if the text names neither.
    """
    spec = spec.strip()
    if COMMAND.fullmatch(spec) and (command := shutil.which(spec)):
        return Path(command)
    if _is_path(spec) and _place(spec).exists():  # as a whole, since a path may have spaces
        place = _place(spec)
        return Packages((), (str(place),)) if _is_checkout(place) else _interpreter_at(place)
    words = [word for word in SEPARATOR.split(LOOSE.sub(r"\1", spec)) if word]
    if not words:
        raise SettingsError(f"schedprof: nothing was named to compare with; give {FORMS}")
    return Packages(
        tuple(_requirement(word) for word in words if not _is_path(word)),
        tuple(_checkout(word) for word in words if _is_path(word)),
    )


def _is_path(text: str) -> bool:
    """Return whether uv takes it for a path: `./distributed` is one, `distributed` is not."""
    seps = filter(None, (os.sep, os.altsep))
    return "://" not in text and (text[:1] in (".", "~") or any(sep in text for sep in seps))


def _place(text: str) -> Path:
    """Make a path absolute without following links: an environment's interpreter is a link."""
    return Path(os.path.abspath(os.path.expanduser(text)))


def _is_checkout(place: Path) -> bool:
    return any((place / name).is_file() for name in BUILD_FILES)


def _interpreter_at(place: Path) -> Path:
    if not place.is_dir():
        return place
    for inside in ("bin/python", "Scripts/python.exe", "python.exe"):
        if (place / inside).exists():
            return place / inside
    raise SettingsError(
        f"schedprof: {str(place)!r} is neither an environment (no bin/python in it) nor a source "
        f"checkout (no {' or '.join(BUILD_FILES[:2])}); give {FORMS}"
    )


def _checkout(word: str) -> str:
    place = _place(word)
    if not place.exists():
        raise SettingsError(f"schedprof: there is nothing at {str(place)!r}; give {FORMS}")
    if not _is_checkout(place):
        raise SettingsError(
            f"schedprof: {str(place)!r} is no source checkout "
            f"(no {' or '.join(BUILD_FILES[:2])} in it)"
        )
    return str(place)


def _requirement(word: str) -> str:
    if "://" in word and "@" not in word.partition("://")[0]:
        return word  # a URL without a name, which uv accepts
    try:
        Requirement(word)
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        raise SettingsError(
            f"schedprof: {word!r} is no requirement ({reason}); give {FORMS}"
        ) from None
    return word


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
    facts = _facts(path, label)
    python, versions = facts["python"], facts.get("versions")
    if facts["implementation"] != "CPython":
        raise _unfit(label, f"is {facts['implementation']}; profilers know CPython alone")
    if Version(python) < Version(OLDEST_PYTHON):
        raise _unfit(label, f"is Python {python}; it must be {OLDEST_PYTHON} or newer")
    if versions is None:
        raise _unfit(
            label,
            f"cannot import distributed ({facts['trouble']}); install it there: "
            f"{path} -m pip install distributed",
        )
    release = Version(versions["distributed"])
    # A checkout without tags has a version of 0.
    if Version(OLDEST_DISTRIBUTED) > release and release.release != (0,):
        raise _unfit(label, f"has distributed {release}; it must be {OLDEST_DISTRIBUTED} or newer")
    return Interpreter(path, python, versions, facts.get("tests", False))


def _facts(path: Path, label: str) -> dict[str, Any]:
    if not path.exists():
        raise SettingsError(f"schedprof: there is no interpreter at {str(path)!r}; give {FORMS}")
    try:
        deadline = time.monotonic() + ASKING_S
        _, output = run([str(path), "-c", QUESTION], deadline=deadline, cwd=path.parent)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"schedprof: {label} did not say within {ASKING_S:g} s which Python it is"
        ) from None
    except OSError as error:
        raise _unfit(label, f"is no Python ({error.strerror}); give {FORMS}") from None
    answers = [line for line in output.splitlines() if line.startswith(MARK)]
    try:
        facts: dict[str, Any] = json.loads(answers[-1].removeprefix(MARK))
    except (IndexError, ValueError):
        words = (output.strip().splitlines() or ["nothing"])[-1][:MOST_WORDS]
        raise _unfit(label, f"is no Python (it said {words!r}); give {FORMS}") from None
    return facts


def _unfit(label: str, why: str) -> SettingsError:
    return SettingsError(f"schedprof: {label} {why}")
