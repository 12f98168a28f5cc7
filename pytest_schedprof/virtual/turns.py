"""Hands the turn back and forth between the cluster and the test's process.

Whoever has the turn handles messages; the other one waits. The time is the cluster's: it tells it
with each turn that it gives away. The test's process tells in return when its next timer is due.
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
"""Linux's ioctl that tells how many bytes of a socket the other end has not received."""

OWN = "schedprof-own"
"""What a connection of the session says of itself, so that it outlives the scheduler."""


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
    """Let the other ends of these sockets know at once what has been received here.

    By itself Linux waits for up to 40 ms, and both processes would pass on the turn again and again
    until then, because nobody knows that everything has arrived.
    """
    if sys.platform != "linux":
        return
    for each in sockets:
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=each)
        try:
            borrowed.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        except OSError:  # it is none of TCP
            pass
        finally:
            borrowed.detach()


def have_arrived(sockets: Mapping[Any, SelectorKey]) -> bool:
    """Return whether all that was sent on these sockets is in the receivers' buffers.

    If a loop waits to write to one, it is full, or its connection is not made yet.
    """
    if any(each.events & EVENT_WRITE for each in sockets.values()):
        return False
    if sys.platform != "linux":
        return True
    from fcntl import ioctl

    for each in sockets:
        try:
            (left,) = struct.unpack("i", ioctl(each, OUTQ, b"\0" * 4))
        except OSError:  # it is none, or is listening
            continue
        if left:
            return False
    return True


class RandomNames:
    """Draws the names of each place in the code by itself.

    Releases of dask differ in how many random names they draw beside those of tasks. If all were
    drawn one after the other, the same tasks would have other names in another release.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._places: dict[str, dict[int, random.Random]] = {}

    def draw(self, function: str, line: int) -> uuid.UUID:
        """Return the next name for a line of a function.

        Lines have other numbers in other releases: they count in the order of their first use.
        """
        function = function.replace("_", "")  # private in one release, public in another
        lines = self._places.setdefault(function, {})
        if line not in lines:
            lines[line] = random.Random(f"{self._seed}:{function}:{len(lines)}")
        return uuid.UUID(int=lines[line].getrandbits(128), version=4)
