"""Passes the turn between the cluster and the test's process.

The process that has the turn handles messages, and the other one waits. The cluster sends its time
with the turn. The test's process sends in return when its next timer is due.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import uuid
from collections.abc import Iterable, Mapping
from selectors import EVENT_WRITE, SelectorKey
from typing import Any

OUTQ = 0x5411
"""Linux's ioctl for the number of bytes of a socket that the other end has not received."""

OWN = "schedprof-own"
"""Marks a connection of the session, which outlives the scheduler."""


class Turns:
    """One end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._received = b""

    def give(self, **what: Any) -> None:
        """Give the turn away."""
        self.connection.sendall(json.dumps(what).encode() + b"\n")

    def take(self) -> dict[str, Any] | None:
        """Wait for the turn; None if the other end has gone."""
        while b"\n" not in self._received:
            try:
                piece = self.connection.recv(65536)
            except OSError:
                piece = b""
            if not piece:
                return None
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        what: dict[str, Any] = json.loads(line)
        return what


def acknowledge(sockets: Iterable[Any]) -> None:
    """Acknowledge at once what these sockets have received.

    By default Linux waits for up to 40 ms. Until then neither process knows that everything has
    arrived, and they would pass the turn back and forth.
    """
    if sys.platform != "linux":
        return
    for descriptor in sockets:
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=descriptor)
        try:
            borrowed.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        except OSError:  # it is not one of TCP
            pass
        finally:
            borrowed.detach()


def have_arrived(sockets: Mapping[Any, SelectorKey]) -> bool:
    """Return whether all that was sent on these sockets is in the receivers' buffers.

    If a loop waits to write to a socket, this is full, or its connection is not made yet.
    """
    if any(socket.events & EVENT_WRITE for socket in sockets.values()):
        return False
    if sys.platform != "linux":
        return True
    from fcntl import ioctl

    for descriptor in sockets:
        try:
            (left,) = struct.unpack("i", ioctl(descriptor, OUTQ, b"\0" * 4))
        except OSError:  # it is not a socket, or is listening
            continue
        if left:
            return False
    return True


class RandomNames:
    """Draws names, from a sequence of its own for each line of code.

    Releases of dask differ in how many random names they draw beside those of tasks. From a single
    sequence the same tasks would get other names in another release.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._places: dict[str, dict[int, random.Random]] = {}

    def draw(self, function: str, line: int) -> uuid.UUID:
        """Return the next name for a line of a function.

        Releases differ in the numbers of lines, so lines count in the order of their first use.
        """
        function = function.replace("_", "")  # private in one release, public in another
        lines = self._places.setdefault(function, {})
        if line not in lines:
            lines[line] = random.Random(f"{self._seed}:{function}:{len(lines)}")
        return uuid.UUID(int=lines[line].getrandbits(128), version=4)
