"""A child process that reports when it is ready, and is ended if it hangs, and the watch over it.

A process that is stopped, or whose interpreter stands still because C code keeps its lock, answers
nobody, and whoever waits for it would wait for ever: in virtual time no time-out is ever due.
"""

from __future__ import annotations

import _thread
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from typing import IO, Any

import dask.config

import pytest_schedprof
from pytest_schedprof.agent.guard import signal_to, state
from pytest_schedprof.clusters.fork_server import CONFIGURATION, SERVERS, Forked, changed
from pytest_schedprof.clusters.interpreters import (
    environment_elsewhere,
    homes_of_dask,
    import_path,
    session_paths,
)
from pytest_schedprof.clusters.process import QUESTION, TELL_PLACE, readable
from pytest_schedprof.errors import BackendNotInstalledError, ClusterError

THIS_SIDE = """
import sys
# The standard library comes first, or a file beside the tests could replace one of its modules.
library = (entry for entry in sys.path if entry and "-packages" not in entry)
sys.path[:] = [*library, *sys.argv[2:]]
from pytest_schedprof.clusters.{module} import main
main()
"""
"""Program of a child, or of its fork server. With `-m` its functions would be of `__main__`."""

OTHER_SIDE = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
sys.path[:] = filter(None, sys.path)
# Import this package by its file, so that no other package of the session comes first.
spec = spec_from_file_location("pytest_schedprof", sys.argv[2])
sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
from pytest_schedprof.clusters.{module} import main
main()
"""
"""The same for another interpreter, which may lack this package or have another version of it."""

EXCEPTION = re.compile(r"^Traceback .*\n(?:[ \t].*\n|\n)*(\S.*)$", re.MULTILINE)
"""Matches a traceback in a log; the group is the line that names the exception."""

PLACE = re.compile(
    r'^  File "(?!.*/pytest_schedprof/agent/)(.+)", line (\d+) in (.+)$', re.MULTILINE
)
"""Matches what a process logs of where its thread is, but for code that counts what it does."""

LAST_WORDS_S = 3.0

TELLING_S = 1.0
"""How long a process may take to log where it is."""

LOG_BYTES = 1_000_000
"""How much of the end of a log is read."""


def start_server_ahead() -> Callable[[], None]:
    """Let a fork server import distributed before there is a cluster; return what lets it go."""
    SERVERS.start_ahead(command_of_server(), environment_of())
    SERVERS.hold()
    return SERVERS.release


def command_of_server(interpreter: str = "") -> list[str]:
    # A server outlives a test, so it does not look for modules where tests are.
    return command_of("fork_server", "{descriptor}", session_paths().beside, interpreter)


def command_of(module: str, argument: str, path: Sequence[str], interpreter: str) -> list[str]:
    program = (OTHER_SIDE if interpreter else THIS_SIDE).format(module=module)
    return [interpreter or sys.executable, "-c", program, argument, *places_of(path, interpreter)]


def places_of(path: Sequence[str], interpreter: str) -> list[str]:
    """Return where a process finds this package, and here all else that can be imported.

    Installed packages come before the directories of tests, as the standard library does.
    """
    if interpreter:
        return [str(pytest_schedprof.__file__)]
    return list(dict.fromkeys([*homes_of_dask(), *session_paths().sites, *filter(None, path)]))


def environment_of(interpreter: str = "", hash_seed: int | None = None) -> dict[str, str]:
    """Return the environment of a process, with dask's configuration in it."""
    config = dask.config.global_config
    environment = environment_elsewhere() if interpreter else dict(os.environ)
    if interpreter:
        config = changed(config, dask.config.merge(*dask.config.defaults))
    if config.get("scheduler") == "dask.distributed":  # while the test has a client of its own
        config = {key: value for key, value in config.items() if key != "scheduler"}
    environment.pop("PYTEST_CURRENT_TEST", None)  # a cluster is not of one test alone
    environment[CONFIGURATION] = dask.config.serialize(_sendable(config))
    environment.setdefault("DASK_DISTRIBUTED__ADMIN__LOG_LENGTH", "1000")
    # Sets of strings then have the same order in every run.
    environment.setdefault("PYTHONHASHSEED", "0")
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = str(hash_seed % 2**32)
    return environment


def _sendable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that another process can have: a pool or a function is of this one."""
    options: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            value = _sendable(value)
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        with suppress(TypeError, ValueError):  # JSON does not have it
            json.dumps({name: value})
            options[name] = value
    return options


class Child:
    """One process of `clusters.process`, with its log."""

    def __init__(
        self,
        name: str,
        log: Path,
        interpreter: str = "",
        hash_seed: int | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.log = log
        self.reason = ""
        """Why it was ended from here, if so."""
        self._environment = environment_of(interpreter, hash_seed)
        self._interpreter = interpreter
        self.process = (None if launcher else self._forked()) or self._started(launcher)

    def _opened(self) -> IO[bytes]:
        """Open the log just before there is a process, which removes its directory at its end.

        If the session is killed in between, the directory stays.
        """
        self.log.parent.mkdir(mode=0o700, exist_ok=True)
        return self.log.open("wb")

    def _forked(self) -> Forked | None:
        """Let a fork server start the process, which then need not import distributed."""
        try:
            directory = os.getcwd()
        except FileNotFoundError:  # a test has removed it
            directory = os.sep
        order = {
            "arguments": [str(self.log.parent), *places_of(import_path(), self._interpreter)],
            "directory": directory,
            "environment": self._environment,
        }
        command = command_of_server(self._interpreter)
        return SERVERS.fork(command, self._environment, order, self._opened)

    def _started(self, launcher: Sequence[str]) -> subprocess.Popen[bytes]:
        command = command_of("process", str(self.log.parent), import_path(), self._interpreter)
        try:
            opened = self._opened()
        except OSError as error:
            raise ClusterError(
                f"schedprof: there is no place for the cluster's files: {error}; "
                "make room, or name another directory in TMPDIR"
            ) from error
        with opened as log:
            settings, before = launched(launcher, self.log.parent)
            return subprocess.Popen(
                [*before, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**self._environment, **settings},
                start_new_session=True,  # a Ctrl-C is for the session, which closes this
            )

    def tell(self, spec: dict[str, Any]) -> None:
        """Tell the child what to run.

        Raises:
            ClusterError: if it has ended.
        """
        assert self.process.stdin is not None
        # The parent's paths, so that the child can import functions of test modules.
        paths: dict[str, Any] = {"sys_path": import_path()}
        if self._interpreter:
            paths = {"paths": session_paths()._asdict(), "python": sys.version_info[:2]}
        line = json.dumps({**spec, **paths}).encode() + b"\n"
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("before it was told what to run") from None

    def answer(self, deadline: float, needed: Child | None = None) -> list[str]:
        """Wait until the child is ready and return the addresses of its nodes.

        Args:
            deadline: when to give up, by `time.monotonic`.
            needed: a child that is ready already, and without which this one waits in vain.

        Raises:
            ClusterError: if one of them ends before, or this one is not ready by the deadline.
        """
        assert self.process.stdout is not None
        mine = self.process.stdout.fileno()
        others = [needed.process.stdout.fileno()] if needed and needed.process.stdout else []
        answer = b""
        while not answer.endswith(b"\n"):
            ready = readable([mine, *others], deadline - time.monotonic())
            if needed and not ready.isdisjoint(others):  # its end, as it says no more
                raise needed._failed("while starting")
            if not ready:
                trouble = f"{self._whose} process was not ready in time; raise --schedprof-timeout"
                raise ClusterError(f"schedprof: {trouble}: {self.last_error()}")
            piece = os.read(mine, 65536)
            if not piece:
                raise self._failed("while starting")
            answer += piece
        addresses: list[str] = json.loads(answer)
        return addresses

    def ask(self) -> None:
        """Ask for a sign of life."""
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), QUESTION)

    def has_answered(self) -> bool:
        """Whether there has been a sign of life since; also if a debugger holds the process."""
        assert self.process.stdout is not None
        if not readable([self.process.stdout.fileno()], 0):
            return state(self.process.pid) == "t"
        if not os.read(self.process.stdout.fileno(), 100):
            raise BrokenPipeError("the process has ended")
        return True

    def give_up(self, why: str) -> None:
        """End the process, and note why and what it did."""
        doing = "it was stopped by a signal" if self.is_stopped else self._place()
        self.end(f"{why}, and was ended: {doing}")

    def end(self, reason: str) -> None:
        """End the process, and note why."""
        self.reason = reason
        self.process.kill()

    @property
    def is_stopped(self) -> bool:
        return state(self.process.pid) == "T"

    def failure(self) -> str | None:
        """Return how the process ended, if it did not end as it should."""
        death = self.death()
        return death if self.process.returncode else None

    def _place(self) -> str:
        """Say where the process's first thread is, by what it logs when a signal comes."""
        before = len(self._whole_log())
        if TELL_PLACE is not None:
            signal_to(self.process.pid, TELL_PLACE)
        logged, deadline = b"", time.monotonic() + TELLING_S
        while time.monotonic() < deadline:
            earlier, logged = logged, self._whole_log()[before:]
            place = PLACE.search(logged.decode(errors="replace"))
            if place and logged == earlier:  # it is written line by line
                file, line, function = place.groups()
                return f"it was in {function} ({file}:{line})"
            time.sleep(0.02)
        return "where it was is not known"

    def death(self, patience_s: float = 0) -> str | None:
        """Return how the process ended, None while it runs."""
        try:
            status = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return None
        if self.reason:
            return f"{self._whose} process {self.process.pid} {self.reason}"
        end = f"was killed by signal {-status}" if status < 0 else f"exited with {status}"
        return f"{self._whose} process {self.process.pid} {end}"

    @property
    def _whose(self) -> str:
        """The possessive of the name: `the scheduler's`, `the workers'`."""
        return f"the {self.name}'" if self.name.endswith("s") else f"the {self.name}'s"

    def last_words(self) -> str:
        """Return the last line of the log."""
        lines = self.logged().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"

    def last_error(self) -> str:
        """Return the last exception in the log, or else the last line.

        Output of the interpreter's exit may follow an exception.
        """
        errors = EXCEPTION.findall(self.logged().decode(errors="replace").strip())
        return errors[-1] if errors else self.last_words()

    def logged(self) -> bytes:
        """Return the log, or the end of a long one."""
        return self._whole_log()[-LOG_BYTES:]

    def _whole_log(self) -> bytes:
        try:
            return self.log.read_bytes()
        except OSError:  # a test has removed it
            return b""

    def hang_up(self) -> None:
        """Tell the child to end.

        Closing its standard input is not enough if a child that a test forked has it open, too.
        """
        assert self.process.stdin is not None
        try:
            if not self.process.stdin.closed:
                self.process.stdin.write(b"\n")
                self.process.stdin.close()
        except OSError:
            pass  # it has ended, or the test closed the pipe, on which it ends too

    def reap(self) -> None:
        """Wait for the end; terminate the process if it takes too long, then kill it."""
        self.hang_up()
        for patience, push in (
            (10, self.process.terminate),
            (2, self.process.kill),
            (2, self._free_from_profiler),
            (2, lambda: None),
        ):
            try:
                self.process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                push()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _free_from_profiler(self) -> None:
        """Kill a py-spy that holds the killed process, if its watchdog could not.

        Somebody else's debugger may hold it too, and is left alone.
        """
        for pid in profilers_of(self.process.pid):
            signal_to(pid, signal.SIGKILL)

    def _failed(self, phase: str) -> ClusterError:
        """Return the error that says how the process ended; its reason is logged before it ends."""
        death = self.death(LAST_WORDS_S) or f"{self._whose} process hung up"
        return ClusterError(f"schedprof: {death} {phase}: {self.last_error()}")


QUESTIONS = 8
"""How often a process is asked within the time in which it must answer."""

LEAST_S = 5.0
"""A busy machine may not run a process for seconds."""


class Watch:
    """Asks a process for signs of life, and ends it if there are none for too long.

    It ends a scheduler too if no process of workers is left: a test would wait for ever.
    """

    def __init__(self, child: Child, patience_s: float, workers: Sequence[Child] = ()) -> None:
        self.patience_s = patience_s
        self._child = child
        self._workers = workers
        self._stopped = 0
        self._unanswered: int | None = None
        """Times at which the last question had no answer yet; None before the first one."""
        # A lock, because tests may replace whatever else waits, and the clocks.
        self._over = _thread.allocate_lock()
        self._over.acquire()
        self._thread = threading.Thread(target=self._watch, name="schedprof-watch", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            try:
                is_over = self._is_decided()
            except (OSError, ValueError):
                return  # it has ended, or the test closed its descriptors
            except Exception:
                is_over = False  # a test may break for a while whatever this calls
            pause_s = max(self.patience_s, LEAST_S) / QUESTIONS
            is_over = is_over or self._over.acquire(timeout=pause_s)

    def _is_decided(self) -> bool:
        """Ask again if there was an answer; end the process if there was none for too long.

        That is counted in questions, since none is asked while this process is stopped.
        """
        if loss := self._loss():
            self._child.end(f"was ended: {loss}")
            return True
        if self._unanswered is None or self._child.has_answered():
            self._unanswered = 0
            self._child.ask()
            return False
        self._unanswered += 1
        if self._unanswered < QUESTIONS - 1:
            return False
        self._child.give_up(f"let no thread run for {self.patience_s:g} s of real time")
        return True

    def _loss(self) -> str:
        """Say what became of the processes of workers, if no test can go on without them."""
        failures = [worker.failure() for worker in self._workers]
        if failures and all(failures):
            return f"{failures[0]}, and no worker is left"
        are_stopped = bool(failures) and all(worker.is_stopped for worker in self._workers)
        self._stopped = self._stopped + 1 if are_stopped else 0
        if self._stopped == QUESTIONS - 1:
            return f"signals stopped all processes of workers for {self.patience_s:g} s"
        return ""

    def end(self) -> None:
        self._over.release()
        self._thread.join()


def launched(launcher: Sequence[str], directory: Path) -> tuple[dict[str, str], list[str]]:
    """Return the environment variables that a launcher begins with, and its command.

    Raises:
        BackendNotInstalledError: if its program is not installed.
    """
    words = [word.replace("{directory}", str(directory)) for word in launcher]
    command = list(dropwhile(lambda word: "=" in word, words))
    if command and shutil.which(command[0]) is None:
        raise BackendNotInstalledError(
            f"schedprof: the backend needs its scheduler to be started by {command[0]}, which is "
            "not installed here",
            f"apt-get install {command[0]}, or what it is called in other systems than Debian",
        )
    return dict(word.split("=", 1) for word in words[: len(words) - len(command)]), command


def profilers_of(pid: int) -> list[int]:
    """Return the processes of py-spy that sample a process."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            program, *arguments = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has just ended
        if Path(program).name == "py-spy" and str(pid) in arguments:
            pids.append(int(path.parent.name))
    return pids
