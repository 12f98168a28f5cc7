"""Measure one version: run pytest with it in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.bisecting.asked import Asked
from pytest_schedprof.errors import BaselineError, SchedprofError
from pytest_schedprof.storage.baselines import load

PROGRAM = """
import os, signal, sys, threading
sys.path[:] = filter(None, sys.path)  # the working directory may be a checkout

def end_with_parent(line=os.dup(0)):
    os.read(line, 1)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=end_with_parent, daemon=True).start()
name, file, *arguments = sys.argv[1:]
import pytest
status = pytest.main(arguments)
finders = [each for each in sys.meta_path if hasattr(each, "find_spec")]
specs = filter(None, (each.find_spec(name, None) for each in finders))
with open(file, "w") as said:
    said.write(next((str(each.origin) for each in specs), ""))
sys.exit(int(status))
"""
"""Runs pytest until its standard input closes, and writes from where a process with the same path
would import the package: tests may put another one first."""

OURS = ("-p", "no:cacheprovider", "--color=no")

TESTS_RAN = (0, 1)

LIMIT_S = 3600.0
"""Time limit of a session."""

PATIENCE_S = 20.0
"""Time for a session to clean up after a Ctrl-C."""

SAID, ORIGIN = "pytest.txt", "origin.txt"

TELLING = [
    re.compile(rf"^{start}\s*(\S.*)$", re.MULTILINE) for start in ("E  ", "ERROR:", "schedprof:")
]
"""Lines of pytest's output that say what went wrong, the ones that say most first."""

MOST_WORDS = 200


@dataclass(frozen=True, slots=True)
class Runnable:
    """A version that can be measured."""

    python: Path
    package: str
    root: Path
    """Directory that holds the package's code."""
    paths: tuple[str, ...] = ()
    """Directories to import from before all others."""


class UnmeasuredError(SchedprofError):
    """A version cannot be measured; the search skips it."""

    def __init__(self, reason: str, *, is_lasting: bool = True) -> None:
        super().__init__(reason)
        self.is_lasting = is_lasting
        """Whether another attempt would end the same way."""


class WrongCodeError(SchedprofError):
    """The tests import the package from another place than that of the version."""


def measure(version: Runnable, asked: Asked, place: Path) -> None:
    """Run the test and leave the results in a directory.

    Raises:
        UnmeasuredError: if pytest gave no results.
        WrongCodeError: if it measured other code.
    """
    command = [
        *(str(version.python), "-c", PROGRAM, version.package, str(place / ORIGIN)),
        *(*OURS, asked.test, *asked.options),
        *(f"--schedprof-dir={place}", "--schedprof-save=measured"),
    ]
    status = run(command, environment_for(version), place / SAID)
    _check_origin(version, place / ORIGIN)
    if status not in TESTS_RAN:
        told = "it took too long" if status is None else trouble_in(place / SAID, status)
        raise UnmeasuredError(told)
    if not _has_figures(place):
        raise UnmeasuredError(trouble_in(place / SAID, status))


def _has_figures(place: Path) -> bool:
    try:
        return any(each.is_usable for each in load(str(place), str(place)).results)
    except BaselineError:
        return False


def environment_for(version: Runnable) -> dict[str, str]:
    """Return the environment variables for a version's process: its code comes first."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [each for each in given if each and not (Path(each) / version.package).exists()]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*version.paths, *others])}
    for name in ("PYTHONHOME", "__PYVENV_LAUNCHER__", "PYTEST_CURRENT_TEST"):
        variables.pop(name, None)
    variables.setdefault("PYTHONHASHSEED", "0")  # graphs have the same order in every session
    return variables


def run(command: list[str], variables: Mapping[str, str], said: Path) -> int | None:
    """Run a program; return its exit status, None if it took too long.

    A Ctrl-C is passed on, and the program has time to clean up. It has a process group of its own,
    so that it does not get the terminal's Ctrl-C too.
    """
    with said.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            start_new_session=True,
        )
        try:
            return process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs: its standard input closes, and it is killed if that fails."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None and hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


def _check_origin(version: Runnable, file: Path) -> None:
    """Check where the package was imported from, if pytest came so far."""
    try:
        origin = file.read_text().strip()
    except OSError:
        return
    if origin and not Path(origin).resolve().is_relative_to(version.root.resolve()):
        raise WrongCodeError(
            f"schedprof: the test imports {version.package!r} from {origin!r} and not from the "
            f"version to measure, {str(version.root)!r}: move the test out of that directory, or "
            "see which conftest.py or setting puts it on the path"
        )


def trouble_in(said: Path, status: int) -> str:
    """Return in one line why pytest gave no results."""
    text = said.read_text(encoding="utf-8", errors="replace")
    found = (line for pattern in TELLING for line in pattern.findall(text))
    last = (text.strip().splitlines() or ["it said nothing"])[-1]
    return f"pytest exited with {status}: {next(found, last)[:MOST_WORDS]}"
