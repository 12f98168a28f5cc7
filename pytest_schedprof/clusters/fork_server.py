"""Fork servers: processes that have imported distributed, and fork those of clusters.

To import distributed takes most of the time in which a cluster starts. A message comes with four
descriptors: an order, and the standard streams of the new process. It is answered by the process's
ID, with a descriptor of the process and one that tells its exit status. The server ends at once
when the session is gone, and its processes with it; when the session lets it go, it waits for them.
Processes that stand still do not see that the session is gone, and are killed a little later.
"""

from __future__ import annotations

import _thread
import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

import dask.config

from pytest_schedprof.clusters import process

MOST_SERVERS = 4
"""Servers that are kept; another one takes the place of the one that was used least recently."""

FOR_A_TEST = re.compile(r"PYTEST_\w+|TOX_ENV_DIR|HOME|USERPROFILE|PWD|OLDPWD")
"""Variables that differ from test to test, and that nothing reads while distributed is imported.

Of its configuration parts are in the home directory, but a variable of its own has the whole.
"""

CONFIGURATION = "DASK_INTERNAL_INHERIT_CONFIG"
"""The variable that has the whole configuration of dask."""

PATIENCE_S = 30.0
"""How long a server may take to import distributed."""

LAST_S = 2.0

LEAVING_S = 4.0
"""How long processes may take to end by themselves when the session is gone."""

STREAMS = 3
"""Standard input, output and error output, which follow the order."""


class Forked:
    """A process that a server has forked, with those methods of `subprocess.Popen` in use here."""

    def __init__(self, pid: int, pidfd: int, status: int, pipes: tuple[int, int]) -> None:
        self.pid = pid
        self.stdin: IO[bytes] = os.fdopen(pipes[0], "wb")
        self.stdout: IO[bytes] = os.fdopen(pipes[1], "rb")
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._status = status
        self._lock = _thread.RLock()  # the watch over a cluster asks from its own thread

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
        with self._lock:
            if self.returncode is None:
                if not process.readable([self._status], timeout):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
                status = os.read(self._status, 100)
                # A server that was killed tells nothing; its processes see that, and end.
                self.returncode = int(status) if status else -signal.SIGKILL
                os.close(self._status)
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
        self._connection, connection = socket.socketpair()
        self._connection.settimeout(PATIENCE_S)
        with connection:
            self._process = subprocess.Popen(
                [word.replace("{descriptor}", str(connection.fileno())) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                pass_fds=[connection.fileno()],
                start_new_session=True,
            )
        self._is_used = False

    def fork(self, order: Mapping[str, Any], log: IO[bytes]) -> Forked:
        """Start a process.

        Raises:
            OSError: if the server is gone or takes too long.
        """
        self._is_used = True
        stdin, ours = os.pipe()
        theirs, stdout = os.pipe()
        file = os.memfd_create("order")
        try:
            os.write(file, json.dumps(order).encode())
            socket.send_fds(self._connection, [b"!"], [file, stdin, stdout, log.fileno()])
            answer, descriptors, *_ = socket.recv_fds(self._connection, 100, 2)
            if not descriptors:
                raise ConnectionResetError("the fork server hung up")
        except BaseException:
            os.close(ours)
            os.close(theirs)
            raise
        finally:
            for descriptor in (file, stdin, stdout):
                os.close(descriptor)
        pidfd, status = descriptors
        return Forked(int(answer), pidfd, status, (ours, theirs))

    def let_go(self) -> None:
        """Let the server end with its last process, of which nobody needs to hear any more."""
        self._connection.close()
        if not self._is_used:  # it may be importing distributed
            self._process.kill()

    def is_over(self, patience_s: float = 0) -> bool:
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

    def start_ahead(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the server for this command and environment, which soon gets its first order."""
        if is_possible():
            key = json.dumps([command, situation(environment)])
            with self._lock:
                self._begin_in_fork()
                if key not in self._servers:
                    self._servers[key] = ForkServer(command, environment)

    def fork(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        order: Mapping[str, Any],
        open_log: Callable[[], IO[bytes]],
    ) -> Forked | None:
        """Start a process by the server for this command and environment.

        Returns None if there are no servers on this system, if this one does not answer, or if the
        log cannot be opened. What is wrong will be told of the process that is then started without
        it.
        """
        if not is_possible():
            return None
        key = json.dumps([command, situation(environment)])
        try:
            log = open_log()
        except OSError:
            return None
        with log, self._lock:
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
        self._let_go = [server for server in self._let_go if not server.is_over()]
        while len(self._servers) > number:
            server = self._servers.pop(next(iter(self._servers)))
            server.let_go()
            self._let_go.append(server)

    def end(self) -> None:
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
    """Return what else than its command a server has from here for good.

    Defaults of dask's configuration are left out: this process may import distributed, which
    has its own, after its server did.
    """
    import resource

    variables = dict(environment)
    config = dask.config.deserialize(variables.pop(CONFIGURATION))
    names = (name for name in dir(resource) if name.startswith("RLIMIT_"))
    return [
        changed(config, dask.config.merge(*dask.config.defaults)),
        sorted(pair for pair in variables.items() if not FOR_A_TEST.fullmatch(pair[0])),
        sorted(os.sched_getaffinity(0)),
        os.getpriority(os.PRIO_PROCESS, 0),
        [resource.getrlimit(getattr(resource, name)) for name in names],
    ]


def changed(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from the defaults, which another release may have changed."""
    options: dict[str, Any] = {}
    for name, value in config.items():
        default = defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            value = changed(value, default) or default
        if value != default or name not in defaults:
            options[name] = value
    return options


def main() -> None:
    """Be a server: fork a process for each order, and run what it asks for in that process."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    # What any role of a process needs.
    import pytest_schedprof.clusters.nodes
    import pytest_schedprof.virtual.hollow_server
    import pytest_schedprof.virtual.hollow_worker
    import pytest_schedprof.virtual.node  # noqa: F401

    order = Forking(connection).serve()
    if order is None:
        process.leave_at_once()
    else:
        _become(order)
        process.main()


class Forking:
    """The loop of the server: takes the session's orders, forks, and tells how processes end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._session = os.pidfd_open(os.getppid())
        self._running: dict[int, tuple[int, int, str]] = {}
        """By pidfd: the process, the descriptor that is told of its end, its directory."""
        self._is_let_go = False

    def serve(self) -> dict[str, Any] | None:
        """Return an order in the process that is to follow it, and None in the server's end."""
        while self._running or not self._is_let_go:
            orders = [] if self._is_let_go else [self._connection.fileno()]
            ready = process.readable([self._session, *self._running, *orders])
            for pidfd in self._running.keys() & ready:
                self._tell_end(pidfd)
            # An order of a session that died is followed too: its process removes its directory.
            if self._connection.fileno() in ready and (order := self._take()) is not None:
                return order
            if self._session in ready:
                self._kill_later()
                return None
        return None

    def _kill_later(self) -> None:
        """Kill what does not end, in a process of its own: others wait for this one to end."""
        if not self._running or os.fork() != 0:
            return
        deadline = time.monotonic() + LEAVING_S
        left = {*self._running}
        while left and (ended := process.readable(left, deadline - time.monotonic())):
            left.difference_update(ended)
        for pidfd in left:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            shutil.rmtree(self._running[pidfd][-1], ignore_errors=True)
        os._exit(0)

    def _tell_end(self, pidfd: int) -> None:
        pid, listener, _ = self._running.pop(pidfd)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        with suppress(BrokenPipeError):  # nobody wants to know
            os.write(listener, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(listener)

    def _take(self) -> dict[str, Any] | None:
        """Read a message and fork; return the order in the new process only."""
        message, descriptors, *_ = socket.recv_fds(self._connection, 1, 1 + STREAMS)
        if not message:
            self._is_let_go = True
            return None
        file, *streams = descriptors
        order: dict[str, Any] = json.loads(os.pread(file, os.fstat(file).st_size, 0))
        status, listener = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # libraries may have threads
            pid = os.fork()
        if pid == 0:
            self._leave()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for descriptor in (file, *streams, status, listener):
                os.close(descriptor)
            return order
        pidfd = os.pidfd_open(pid)
        self._running[pidfd] = pid, listener, order["arguments"][0]
        with suppress(BrokenPipeError):  # the session has died
            socket.send_fds(self._connection, [str(pid).encode()], [pidfd, status])
        for descriptor in (file, *streams, status):
            os.close(descriptor)
        return None

    def _leave(self) -> None:
        """Close what is the server's own: somebody waits for the end of each of them."""
        self._connection.close()
        os.close(self._session)
        for pidfd, (_, listener, _) in self._running.items():
            os.close(pidfd)
            os.close(listener)


def _become(order: Mapping[str, Any]) -> None:
    """Become the process that the session would have started itself."""
    os.setsid()  # a Ctrl-C is for the session, which ends this
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    tempfile.tempdir = None  # it depends on the environment
    sys.argv[1:] = order["arguments"]
