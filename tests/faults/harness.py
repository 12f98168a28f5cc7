"""Tests of faults: a session of pytest that comes to harm at a named stage.

`harmed(project, body, at=..., harm=...)` writes a test file, starts a session in a process of its
own, waits until the session says that it has reached the stage (`stages.py` has their names, and
the test's body may name more with `reached`), does the harm while the session waits there, lets it
go on, and returns an `Outcome`: how the session and its tests ended, what it said, and all that it
left. Harms are functions of the running `Session`: `kill("scheduler")`, `no_room("session")`,
`together(...)`, or your own. A session that does not end in time fails the test.

    outcome = harmed(project, body, at="window closing", harm=kill("guard"))
    assert outcome.verdicts == {"test_it": "passed"}
    outcome.expect_nothing_left()
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import psutil
from stages import ADDRESS, FILE, STAGE
from support import ALONE, AUTOLOAD, HEADER, Kept, runs, settle

from pytest_schedprof.model.result import Result

SETTLING_S = 60.0
"""How long processes may take to end after their session."""

PATIENCE_S = 300.0
"""How long a session may take to reach its stage, and then to end, on a machine that is busy."""

PROGRAM = (
    "import signal, sys, pytest; "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "  # also in the background
    "sys.exit(pytest.main())"
)

Harm: TypeAlias = "Callable[[Session], None]"


@dataclass(frozen=True)
class Outcome:
    """How a session ended, and what it left."""

    verdicts: dict[str, str]
    """Outcome of each test by its name: passed, failed, skipped, or error outside of its body."""
    exit_code: int
    """The session's exit status; negative if a signal ended it."""
    output: str
    kept: frozenset[str]
    """Names of the files of the run's tests, without their directories."""
    results: dict[str, Result]
    """The record of each test by its name."""
    processes: list[str]
    """Processes that were left."""
    descriptors: list[str]
    """What was still open at the end of the session and not at its begin."""
    temporary: list[str]
    """Files and directories left in the directory for temporary files."""

    def expect_nothing_left(self) -> None:
        """Assert that no process, descriptor or temporary file was left."""
        assert (self.processes, self.descriptors, self.temporary) == ([], [], [])


class Session:
    """A running session of pytest, and its processes by their roles."""

    def __init__(self, project: Kept, arguments: tuple[str, ...], stages: str) -> None:
        self.project = project
        self.mark = f"schedprof-faults-{uuid.uuid4().hex}"
        self.temporary = project.path / "temporary"
        self.temporary.mkdir()
        self.notes = project.path / "notes.jsonl"
        self.notes.touch()
        self.log = project.path / "output.txt"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("\0" + self.mark)
        self._listener.listen()
        self._listener.settimeout(0.1)
        self.waiting: list[socket.socket] = []
        # A file and no pipe, because a process that is left would keep a pipe open.
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *ALONE, "-p", "stages", *arguments],
                cwd=project.path,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(stages),
            )

    def _environment(self, stages: str) -> dict[str, str]:
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        return {
            **os.environ,
            AUTOLOAD: "1",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TMPDIR": str(self.temporary),
            FILE: str(self.notes),
            ADDRESS: self.mark,
            STAGE: stages,
        }

    def wait_for_stage(self, limit_s: float) -> None:
        """Wait until the session has reached its next stage."""
        deadline = time.monotonic() + limit_s
        while not self.waiting:
            assert self.process.poll() is None, f"ended before its stage:\n{self.output}"
            assert time.monotonic() < deadline, f"did not reach its stage:\n{self.output}"
            try:
                self.waiting.append(self._listener.accept()[0])
            except TimeoutError:
                pass

    def go_on(self) -> None:
        """Let the session leave its stage."""
        while self.waiting:
            self.waiting.pop().close()

    @property
    def output(self) -> str:
        """What the session has written so far."""
        return self.log.read_text(errors="replace")

    def processes(self) -> Iterator[psutil.Process]:
        """Yield all processes that the session started, found by their environment."""
        for process in psutil.process_iter():
            try:
                if process.environ().get(ADDRESS) == self.mark:
                    yield process
            except (psutil.Error, OSError):
                pass  # it is a zombie, or belongs to another user

    def with_role(self, role: str) -> list[psutil.Process]:
        """Return the session's processes of a role: session, scheduler, profiler and so on."""
        return [process for process in self.processes() if self.role(process) == role]

    def role(self, process: psutil.Process) -> str:
        """Return what a process is: session, scheduler, profiler and so on; `other` if unknown."""
        try:
            return self._known_role(process)
        except psutil.Error:  # it has just ended
            return "other"

    def _known_role(self, process: psutil.Process) -> str:
        if process.pid == self.process.pid:
            return "session"
        if "py-spy" in process.name():
            return "profiler"
        command = " ".join(process.cmdline())
        if "The watchdog of a py-spy" in command:
            return "guard"
        if "pytest_schedprof.clusters." not in command:
            return "other"
        try:  # the log of a process of a cluster is named after what runs in it
            log = Path(os.readlink(f"/proc/{process.pid}/fd/2"))
            return "fork server" if str(log) == os.devnull else log.stem.partition("-")[0]
        except OSError:
            return "other"

    def close(self) -> None:
        """End all that is left of the session."""
        self.go_on()
        self._listener.close()
        for process in self.processes():
            process.kill()
        self.process.wait()


def kill(role: str, number: int = signal.SIGKILL, *, is_held: bool = False) -> Harm:
    """Send a signal to all processes of a role, and wait until a kill has ended them.

    Args:
        role: of the processes.
        number: of the signal.
        is_held: whether a profiler may hold a process when it is killed. It then ends only when
            the session, which waits at its stage, frees it.
    """

    def harm(session: Session) -> None:
        # One that was just forked has the log of the fork server for a moment.
        assert settle(lambda: bool(session.with_role(role)), 60), f"no process is the {role}"
        victims = session.with_role(role)
        for victim in victims:
            victim.send_signal(number)
        if number == signal.SIGKILL and not is_held:
            assert settle(lambda: not any(map(runs, victims)), 60), f"the {role} survived"

    return harm


def no_room(role: str, size: int = 0) -> Harm:
    """Let processes of a role write no file beyond a size, as on a full disk."""

    def harm(session: Session) -> None:
        for process in session.with_role(role):
            _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, most))

    return harm


def together(*harms: Harm) -> Harm:
    """Do one harm after the other."""

    def harm(session: Session) -> None:
        for one in harms:
            one(session)

    return harm


def no_harm(session: Session) -> None:
    """Do nothing: the body of the test does the harm itself."""


def harmed(
    project: Kept,
    body: str,
    *arguments: str,
    at: str = "",
    harm: Harm = no_harm,
    then: Sequence[tuple[str, Harm]] = (),
    lasting: int = 0,
) -> Outcome:
    """Run a session that comes to harm at a stage.

    Args:
        body: the tests; `HEADER` of `support.py` and `reached` are provided.
        arguments: of pytest.
        at: a stage of `stages.py` or of the body; `#2` after it means its second time, and
            `@test_it` a time in that test.
        harm: what to do there.
        then: further stages in their order, and what to do at each of them.
        lasting: how many processes of the test's own outlast its session.
    """
    (project.path / "test_it.py").write_text(f"{HEADER}\nfrom stages import reached\n{body}")
    steps = [(stage, harm) for stage, harm in [(at, harm), *then] if stage]
    session = Session(project, arguments, ",".join(stage for stage, _ in steps))
    try:
        for _, doing in steps:
            session.wait_for_stage(PATIENCE_S)
            doing(session)
            session.go_on()
        is_over = settle(lambda: session.process.poll() is not None, PATIENCE_S)
        assert is_over, f"the session did not end in {PATIENCE_S:g} s:\n{session.output}"
        settle(lambda: len([*session.processes()]) <= lasting, SETTLING_S)
        return _outcome(session)
    finally:
        session.close()


def _outcome(session: Session) -> Outcome:
    notes = [json.loads(line) for line in session.notes.read_text().splitlines()]
    places = [path for path in (session.project.path / ".schedprof").glob("*") if path.is_dir()]
    return Outcome(
        verdicts={note["test"]: note["outcome"] for note in notes if "test" in note},
        exit_code=session.process.returncode,
        output=session.output,
        kept=frozenset(path.name for place in places for path in place.glob("tests/*/*")),
        results=session.project.results() if places else {},
        processes=[f"{session.role(process)}: {process}" for process in session.processes()],
        descriptors=[descriptor for note in notes for descriptor in note.get("descriptors", ())],
        temporary=sorted(path.name for path in session.temporary.iterdir()),
    )
