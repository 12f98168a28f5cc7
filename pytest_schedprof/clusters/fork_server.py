"""Main program of a fork server: it has imported distributed, and forks the processes of clusters.

To import distributed takes most of the time in which a cluster starts. A message comes with four
descriptors: an order, and the standard streams of the new process. It is answered by the process's
ID, with a descriptor of the process and one that tells its exit status. The server ends at once
when the session is gone, and its processes with it; when the session lets it go, it waits for them.
Processes that stand still do not see that the session is gone, and are killed a little later.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import warnings
from typing import Any

from pytest_schedprof.clusters.leaving import leave_at_once

LEAVING_S = 4.0
"""How long processes may take to end by themselves when the session is gone."""

STREAMS = 3
"""Standard input, output and error output, which follow the order."""


def main() -> None:
    """Fork a process for each order, and run what it asks for in that process."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    _import_nodes()
    order = ForkServer(connection).serve()
    if order is not None:
        _become(order)
        from pytest_schedprof.clusters import process

        process.main()
    leave_at_once()


def _import_nodes() -> None:
    """Import what any role of a process needs."""
    import pytest_schedprof.clusters.nodes
    import pytest_schedprof.virtual.arrivals
    import pytest_schedprof.virtual.hollow_server
    import pytest_schedprof.virtual.hollow_worker
    import pytest_schedprof.virtual.node  # noqa: F401


class ForkServer:
    """The server's descriptors: of the session, and of the processes that run."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._session = os.pidfd_open(os.getppid())
        self._running: dict[int, tuple[int, int, str]] = {}
        """By pidfd: the process, the descriptor that is told of its end, its directory."""
        self._is_let_go = False

    def serve(self) -> dict[str, Any] | None:
        """Return an order in the process that is to follow it, and None in the server's end."""
        while self._running or not self._is_let_go:
            ready, _, _ = select.select(self._signs(), [], [])
            if self._session in ready:
                self._kill_later()
                return None
            for pidfd in self._running.keys() & ready:
                self._tell_end(pidfd)
            if self._connection.fileno() in ready and (order := self._take()) is not None:
                return order
        return None

    def _signs(self) -> list[int]:
        orders = [] if self._is_let_go else [self._connection.fileno()]
        return [self._session, *self._running, *orders]

    def _kill_later(self) -> None:
        """Kill what does not end, in a process of its own: others wait for this one to end."""
        if not self._running or os.fork() != 0:
            return
        deadline = time.monotonic() + LEAVING_S
        left = {*self._running}
        while left and (
            ended := select.select(left, [], [], max(0, deadline - time.monotonic()))[0]
        ):
            left.difference_update(ended)
        for pidfd in left:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            shutil.rmtree(self._running[pidfd][-1], ignore_errors=True)
        os._exit(0)

    def _tell_end(self, pidfd: int) -> None:
        pid, told, _ = self._running.pop(pidfd)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        try:
            os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
        except BrokenPipeError:
            pass  # nobody wants to know
        os.close(told)

    def _take(self) -> dict[str, Any] | None:
        """Read a message and fork; return the order in the new process only."""
        message, descriptors, *_ = socket.recv_fds(self._connection, 1, 1 + STREAMS)
        if not message:
            self._is_let_go = True
            return None
        order, *streams = descriptors
        tells, told = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # libraries may have threads
            pid = os.fork()
        if pid == 0:
            self._leave()
            os.close(tells)
            os.close(told)
            return _read(order, streams)
        pidfd = os.pidfd_open(pid)
        directory = json.loads(os.pread(order, os.fstat(order).st_size, 0))["arguments"][0]
        self._running[pidfd] = pid, told, directory
        socket.send_fds(self._connection, [str(pid).encode()], [pidfd, tells])
        for each in (order, *streams, tells):
            os.close(each)
        return None

    def _leave(self) -> None:
        """Close what is the server's own: somebody waits for the end of each of them."""
        self._connection.close()
        os.close(self._session)
        for pidfd, (_, told, _) in self._running.items():
            os.close(pidfd)
            os.close(told)


def _read(order: int, streams: list[int]) -> dict[str, Any]:
    """Take over the standard streams, and read the order."""
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    with open(order, "rb") as file:
        file.seek(0)
        found: dict[str, Any] = json.load(file)
    return found


def _become(order: dict[str, Any]) -> None:
    """Become the process that the session would have started itself."""
    os.setsid()  # a Ctrl-C is for the session, which ends this
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    tempfile.tempdir = None  # it depends on the environment
    sys.argv[1:] = order["arguments"]
