"""Processes of clusters that fork servers start, which have imported distributed already."""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

MOST_SERVERS = 4
"""Servers that are kept; another one takes the place of the one that was used least recently."""

FOR_A_TEST = re.compile(r"PYTEST_\w+|TOX_ENV_DIR|HOME|USERPROFILE|PWD|OLDPWD")
"""Variables that differ from test to test, and that nothing reads while distributed is imported.

Of its configuration parts are in the home directory, but a variable of its own has the whole.
"""

PATIENCE_S = 30.0
"""How long a server may take to import distributed."""

LAST_S = 2.0


class Forked:
    """A process that a server has forked, with those methods of `subprocess.Popen` in use here."""

    def __init__(self, pid: int, pidfd: int, told: int, pipes: tuple[int, int]) -> None:
        self.pid = pid
        self.stdin: IO[bytes] = os.fdopen(pipes[0], "wb")
        self.stdout: IO[bytes] = os.fdopen(pipes[1], "rb")
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._told = told

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end; return its exit status, as `Popen` does.

        Raises:
            subprocess.TimeoutExpired: if it did not end in time.
        """
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            told = os.read(self._told, 100)
            # A server that was killed tells nothing; its processes see that, and end.
            self.returncode = int(told) if told else -signal.SIGKILL
            os.close(self._told)
            os.close(self._pidfd)
        return self.returncode

    def terminate(self) -> None:
        """Ask the process to end, if it runs."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, if it runs."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)


class ForkServer:
    """The session's end of a fork server."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a server; in its command, `{descriptor}` stands for that of its connection."""
        self._connection, theirs = socket.socketpair()
        self._connection.settimeout(PATIENCE_S)
        with theirs:
            self._process = subprocess.Popen(
                [each.replace("{descriptor}", str(theirs.fileno())) for each in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, order: Mapping[str, Any], log: IO[bytes]) -> Forked:
        """Start a process.

        Raises:
            OSError: if the server is gone or takes too long.
        """
        stdin, ours = os.pipe()
        theirs, stdout = os.pipe()
        given = os.memfd_create("order")
        try:
            os.write(given, json.dumps(order).encode())
            socket.send_fds(self._connection, [b"!"], [given, stdin, stdout, log.fileno()])
            answer, found, *_ = socket.recv_fds(self._connection, 100, 2)
            if not found:
                raise ConnectionResetError("the fork server hung up")
        except BaseException:
            os.close(ours)
            os.close(theirs)
            raise
        finally:
            for each in (given, stdin, stdout):
                os.close(each)
        pidfd, told = found
        return Forked(int(answer), pidfd, told, (ours, theirs))

    def let_go(self) -> None:
        """Let the server end with its last process, of which nobody needs to hear any more."""
        self._connection.close()

    def is_over(self, patience_s: float = 0) -> bool:
        """Return whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        return self._process.returncode is not None

    def end(self) -> None:
        """End the server, and with it all processes that it forked."""
        self.let_go()
        if not self.is_over(LAST_S):
            self._process.kill()
            self._process.wait()


class ForkServers:
    """The servers of this process, by what their processes take over from it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._servers: dict[str, ForkServer] = {}
        self._let_go: list[ForkServer] = []
        self._holders = 0

    def hold(self) -> None:
        """Keep servers until all who hold them release them; without a hold they end last."""
        self._holders += 1

    def release(self) -> None:
        """Let all servers go if nobody else holds them."""
        self._holders -= 1
        if self._holders <= 0:
            with self._lock:
                self._begin_in_fork()
                self._keep_at_most(0)
                for server in self._let_go:
                    server.is_over(LAST_S)

    def fork(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        order: Mapping[str, Any],
        log: IO[bytes],
    ) -> Forked | None:
        """Start a process by the server for this command and environment.

        Returns None if there are no servers on this system, or if this one does not answer. What
        is wrong with it will be told of the process that is then started without it.
        """
        if not is_possible():
            return None
        key = json.dumps([command, situation(environment)])
        with self._lock:
            self._begin_in_fork()
            server = self._servers.pop(key, None)
            try:
                server = server or ForkServer(command, environment)
                forked = server.fork(order, log)
            except OSError:
                if server is not None:
                    server.end()
                return None
            self._servers[key] = server  # the last one that was used is the last of all
            self._keep_at_most(MOST_SERVERS)
        return forked

    def _begin_in_fork(self) -> None:
        """Leave the servers to the process that this one was forked from."""
        if self._process != os.getpid():
            self._process, self._servers, self._let_go = os.getpid(), {}, []

    def _keep_at_most(self, number: int) -> None:
        self._let_go = [each for each in self._let_go if not each.is_over()]
        while len(self._servers) > number:
            server = self._servers.pop(next(iter(self._servers)))
            server.let_go()
            self._let_go.append(server)

    def end(self) -> None:
        """End all servers."""
        if self._process == os.getpid():
            for server in [*self._servers.values(), *self._let_go]:
                server.end()


SERVERS = ForkServers()
atexit.register(SERVERS.end)


def is_possible() -> bool:
    """Return whether this system has what servers need."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, or an old one, or one that does not allow it
        return False
    return hasattr(os, "memfd_create")


def situation(environment: Mapping[str, str]) -> list[Any]:
    """Return what else than its command a server has from here for good."""
    import resource

    names = (name for name in dir(resource) if name.startswith("RLIMIT_"))
    return [
        sorted(each for each in environment.items() if not FOR_A_TEST.fullmatch(each[0])),
        sorted(os.sched_getaffinity(0)),
        os.getpriority(os.PRIO_PROCESS, 0),
        [resource.getrlimit(getattr(resource, name)) for name in names],
    ]
