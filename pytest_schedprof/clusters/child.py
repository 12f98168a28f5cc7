"""A child process that is ready when it says so and ends when told, by a ladder if need be."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask.config

import pytest_schedprof
from pytest_schedprof.environments.paths import session_paths
from pytest_schedprof.environments.programs import environment_elsewhere
from pytest_schedprof.errors import ClusterError

PROGRAM = """
import sys
# What Python has comes first, else a file beside the tests could stand for a module of it.
sys.path[:] = [*filter(None, sys.path), *sys.argv[2:]]
from pytest_schedprof.clusters.process import main
main()
"""
"""Not `-m`, so that the functions there have the module they are written in."""

PROGRAM_ELSEWHERE = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
sys.path[:] = filter(None, sys.path)
# This package by its file: nothing else of the session's may be found before what is there.
spec = spec_from_file_location("pytest_schedprof", sys.argv[2])
sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
from pytest_schedprof.clusters.process import main
main()
"""
"""For another interpreter, which need not have this package, and may have another version of it."""

EXCEPTION = re.compile(r"^Traceback .*\n(?:[ \t].*\n|\n)*(\S.*)$", re.MULTILINE)
"""A traceback in a log, with the line that names the exception."""

LAST_WORDS_S = 3.0


class Child:
    """One process of `clusters.process`, with its log."""

    def __init__(self, name: str, log: Path, interpreter: str = "") -> None:
        self.name = name
        self.log = log
        self._is_here = not interpreter
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                self._command(interpreter),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=self._environment(),
                start_new_session=True,  # a Ctrl-C is for the session, which then closes this
            )

    def _command(self, interpreter: str) -> list[str]:
        directory = str(self.log.parent)
        if self._is_here:
            return [sys.executable, "-c", PROGRAM, directory, *filter(None, sys.path)]
        return [interpreter, "-c", PROGRAM_ELSEWHERE, directory, str(pytest_schedprof.__file__)]

    def _environment(self) -> dict[str, str]:
        config = dask.config.global_config
        environment = dict(os.environ) if self._is_here else environment_elsewhere()
        if not self._is_here:
            config = changed(config, dask.config.merge(*dask.config.defaults))
        environment["DASK_INTERNAL_INHERIT_CONFIG"] = dask.config.serialize(config)
        # Sets of strings are then gone through in the same order every run.
        environment.setdefault("PYTHONHASHSEED", "0")
        return environment

    def tell(self, spec: dict[str, Any]) -> None:
        """Say what to run."""
        assert self.process.stdin is not None
        line = json.dumps({**spec, **self._paths()}).encode() + b"\n"
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("ended before it was told what to run") from None

    def _paths(self) -> dict[str, Any]:
        """The parent's path, so that functions of test modules can be found by name."""
        if self._is_here:
            return {"sys_path": sys.path}
        return {"paths": session_paths().as_dict(), "python": sys.version_info[:2]}

    def answer(self, deadline: float) -> list[str]:
        """The addresses, when all of it is ready."""
        addresses: list[str] = json.loads(self._line(deadline))
        return addresses

    def _line(self, deadline: float) -> bytes:
        assert self.process.stdout is not None
        answer = b""
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise self._failure("was not ready in time; raise --schedprof-timeout")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                self.death(LAST_WORDS_S)  # what it says of the reason comes after this
                raise self._failure("ended while starting")
            answer += piece
        return answer

    def death(self, patience_s: float = 0) -> str | None:
        """How the process ended, None while it runs."""
        try:
            status = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return None
        how = f"was killed by signal {-status}" if status < 0 else f"exited with {status}"
        return f"the {self.name}'s process {self.process.pid} {how}"

    def last_words(self) -> str:
        """The last line of the log."""
        lines = self._logged().splitlines()
        return lines[-1] if lines else "its log is empty"

    def last_error(self) -> str:
        """The last exception in the log; what follows it may be the interpreter's good-bye."""
        errors = EXCEPTION.findall(self._logged())
        return errors[-1] if errors else self.last_words()

    def _logged(self) -> str:
        return self.log.read_text(errors="replace").strip() if self.log.exists() else ""

    def hang_up(self) -> None:
        """Ask the process to end."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it ended with the order unread

    def reap(self) -> None:
        """Wait for the end; terminate, then kill a process that does not come to it."""
        self.hang_up()
        for patience, push in ((10, self.process.terminate), (2, self.process.kill)):
            try:
                self.process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                push()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            pass  # somebody's debugger holds what is left of it
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _failure(self, what: str) -> ClusterError:
        return ClusterError(f"schedprof: the {self.name}'s process {what}: {self.last_error()}")


def changed(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from the defaults: those of another release may be others."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        default = defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            value = changed(value, default) or default
        if value != default or name not in defaults:
            found[name] = value
    return found
