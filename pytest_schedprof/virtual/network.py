"""A network in memory, below tornado's streams, for the threads of a test in turns.

Ports, framing, partial reads, back-pressure and the ends of connections are as those of TCP. What
is sent arrives later, and in order; with nothing drawn each piece is as long on its way.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
import types
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

from pytest_schedprof.virtual import threads
from pytest_schedprof.virtual.relay import Relay
from pytest_schedprof.virtual.weather import OF_MESSAGES

LATENCY_NS = 20_000
"""How long what is sent is on its way, as on the loopback interface."""

ROOM = 2_500_000
"""Bytes of a connection that are sent and not read yet, at most: those of Linux's buffers."""

FIRST_DESCRIPTOR = 10_000_000
"""Descriptors from here on are of sockets in memory."""

FIRST_PORT = 40_001

EVERYWHERE = ("", "0.0.0.0", "::")

Address = tuple[str, int]


class Network:
    """The sockets and the listeners of one test."""

    def __init__(self, relay: Relay, name_of: Callable[[int], str]) -> None:
        self.relay, self.name_of = relay, name_of
        self.sockets: dict[int, Socket] = {}
        self.listeners: dict[Address, Socket] = {}
        self.ports = count(FIRST_PORT)
        self.descriptors = count(FIRST_DESCRIPTOR)
        self.own_address = _own_address()

    def listener_at(self, host: str, port: int) -> Socket | None:
        places = ((host, port), *((place, port) for place in EVERYWHERE))
        return next((self.listeners[place] for place in places if place in self.listeners), None)

    def is_taken(self, host: str, port: int) -> bool:
        return any(
            port == other and (host == place or {host, place} & {*EVERYWHERE})
            for place, other in self.listeners
            if (":" in host) == (":" in place)
        )

    def hears(self, address: Any) -> bool:
        """Whether a real socket that connects to an address means a listener in memory."""
        if not isinstance(address, tuple):
            return False
        host, port = address[:2]
        return self.is_own(host) and self.listener_at(host, port) is not None

    def is_own(self, host: str) -> bool:
        """Whether a host is this machine, which refuses connections at once."""
        return host.startswith(("127.", "0.")) or host in ("::1", "localhost", self.own_address)


def _own_address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


OPERATION = re.compile(rb"\xa2op([\xa1-\xbf])")
"""Begins the name of what a message of dask's asks for, in MessagePack, where its length is."""


def _content(piece: bytes) -> str:
    """Return what is sent, for people: the operations in a message, or its size."""
    names = [
        piece[match.end() : match.end() + match[1][0] % 32].decode(errors="replace")
        for match in OPERATION.finditer(piece)
    ]
    if names:
        return ", ".join(names)
    return f"a message of {len(piece)} bytes" if piece else "the end of the connection"


def _error(number: int, kind: type[OSError] = OSError) -> OSError:
    return kind(number, errno.errorcode[number])


class Socket:
    """As much of a socket of TCP as tornado uses."""

    def __init__(
        self,
        network: Network,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,
        proto: int = 0,
    ) -> None:
        self.network, self.family, self.type, self.proto = network, family, type, proto
        self.descriptor = next(network.descriptors)
        network.sockets[self.descriptor] = self
        self.name: Address = ("0.0.0.0" if family == socket.AF_INET else "::", 0)
        self.other_name: Address | None = None
        self.peer: Socket | None = None
        self.when_ready: Callable[[int], None] = lambda descriptor: None
        """Is called when the socket may have become ready; set by the selector that watches it."""
        self._waiting: deque[Socket] | None = None
        """Connections to accept, of a listener."""
        self._received: deque[memoryview] = deque()
        self._unread = self._under_way = 0
        """Bytes that have arrived, and bytes that are on their way to the peer."""
        self._has_ended = self._is_reset = self._is_shut = self._is_closed = False
        self._error = 0
        self._last_arrival = 0

    @property
    def ready(self) -> int:
        """What a selector would see."""
        if self._waiting is not None:
            return EVENT_READ if self._waiting else 0
        events = EVENT_READ if self._received or self._has_ended or self._is_reset else 0
        has_room = self.peer is not None and self._under_way + self.peer._unread < ROOM
        return events | (EVENT_WRITE if self._error or self._is_reset or has_room else 0)

    def fileno(self) -> int:
        return -1 if self._is_closed else self.descriptor

    def setblocking(self, flag: bool) -> None:
        """Do nothing: no call waits."""

    def settimeout(self, value: float | None) -> None:
        """Do nothing: no call waits."""

    def setsockopt(self, *arguments: Any) -> None:
        """Do nothing: options are about the kernel's buffers and time-outs."""

    def getsockopt(self, level: int, option: int, *arguments: Any) -> int:
        if option != socket.SO_ERROR:
            return 0
        number, self._error = self._error, 0
        return number or (errno.ECONNRESET if self._is_reset else 0)

    def getsockname(self) -> tuple[Any, ...]:
        self._check()
        return self._in_family(self.name)

    def getpeername(self) -> tuple[Any, ...]:
        if self.other_name is None:
            raise _error(errno.ENOTCONN)
        return self._in_family(self.other_name)

    def _in_family(self, address: Address) -> tuple[Any, ...]:
        return address if self.family == socket.AF_INET else (*address, 0, 0)

    def bind(self, address: tuple[Any, ...]) -> None:
        host, port = address[:2]
        network = self.network
        if not port:  # one that a listener has not chosen itself
            port = next(port for port in network.ports if not network.is_taken(host, port))
        elif network.is_taken(host, port):
            raise _error(errno.EADDRINUSE)
        self.name = (host, port)

    def listen(self, backlog: int = 0) -> None:
        self._waiting = deque()
        self.network.listeners[self.name] = self

    def accept(self) -> tuple[Socket, tuple[Any, ...]]:
        self._check()
        if not self._waiting:
            raise _error(errno.EAGAIN, BlockingIOError)
        connection = self._waiting.popleft()
        return connection, connection.getpeername()

    def connect(self, address: tuple[Any, ...]) -> None:
        host, port = address[:2]
        network = self.network
        if not self.name[1]:
            local = "127.0.0.1" if self.family == socket.AF_INET else "::1"
            self.name = (local, next(network.ports))
        self.other_name = (host, port)
        relay = network.relay
        relay.at(relay.now + LATENCY_NS, self._meet)
        raise _error(errno.EINPROGRESS, BlockingIOError)

    def _meet(self) -> None:
        """Connect with the listener at the address; nobody answers at that of another machine."""
        assert self.other_name is not None
        if self._is_closed:
            return
        listener = self.network.listener_at(*self.other_name)
        if listener is None or listener._waiting is None:
            if self.network.is_own(self.other_name[0]):
                self._error = errno.ECONNREFUSED
                self._notify()
            return
        other = Socket(self.network, self.family)
        other.name, other.other_name = self.other_name, self.name
        other.peer, self.peer = self, other
        listener._waiting.append(other)
        listener._notify()
        self._notify()

    def send(self, content: Any, flags: int = 0) -> int:
        room = ROOM - self._under_way - self._open_peer()._unread
        if room <= 0:
            raise _error(errno.EAGAIN, BlockingIOError)
        piece = bytes(memoryview(content)[:room])
        self.push(piece)
        return len(piece)

    def push(self, piece: bytes) -> None:
        """Send all of a piece, whatever room there is."""
        self._open_peer()
        self._under_way += len(piece)
        self._send(piece)

    def _open_peer(self) -> Socket:
        self._check()
        if self._is_reset:
            raise _error(errno.ECONNRESET, ConnectionResetError)
        if self._is_shut or self.peer is None:
            raise _error(errno.EPIPE, BrokenPipeError)
        return self.peer

    def _send(self, piece: bytes) -> None:
        """Let a piece arrive after all that was sent before; an empty one is the end."""
        relay = self.network.relay
        if relay.journal is not None:
            text = f"{len(piece)} bytes" if piece else "the end"
            relay.note(f"{self.name[1]} sends {text} to {self.peer.name[1] if self.peer else ''}")
        arrival = relay.now + LATENCY_NS + self._lateness(piece)
        self._last_arrival = max(arrival, self._last_arrival + 1)
        relay.at(self._last_arrival, partial(self._arrive, piece))

    def _lateness(self, piece: bytes) -> int:
        """Return by how many nanoseconds a piece is late."""
        relay, peer = self.network.relay, self.peer
        if relay.weather is None or peer is None:
            return 0
        ports = self.name[1], peer.name[1]

        def text() -> str:
            sender, receiver = map(self.network.name_of, ports)
            return f"{_content(piece)} from {sender} to {receiver}"

        return relay.weather.delay(OF_MESSAGES, f"{ports}", relay.now, text)

    def _arrive(self, piece: bytes) -> None:
        peer = self.peer
        assert peer is not None
        self._under_way -= len(piece)
        if peer._is_closed:
            if piece and not self._is_closed:
                self._is_reset = True
                self._notify()
            return
        if piece:
            peer._received.append(memoryview(piece))
            peer._unread += len(piece)
        else:
            peer._has_ended = True
        peer._notify()

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        self._check()
        if not self._received:
            if self._is_reset:
                raise _error(errno.ECONNRESET, ConnectionResetError)
            if self._has_ended or self._is_shut:
                return 0
            raise _error(errno.EAGAIN, BlockingIOError)
        target = memoryview(buffer).cast("B")
        done, most = 0, nbytes or len(target)
        while self._received and done < most:
            piece = self._received[0]
            size = min(len(piece), most - done)
            target[done : done + size] = piece[:size]
            done += size
            if size == len(piece):
                self._received.popleft()
            else:
                self._received[0] = piece[size:]
        # What is late fills the connection too: then the sender waits, however little is unread.
        late = self.peer._under_way if self.peer is not None else 0
        may_be_awaited = self._unread >= ROOM // 2 or self._unread + late >= ROOM
        self._unread -= done
        if may_be_awaited and self.peer is not None:
            self.peer._notify()
        return done

    def recv(self, nbytes: int, flags: int = 0) -> bytes:
        buffer = bytearray(nbytes)
        return bytes(buffer[: self.recv_into(buffer)])

    def shutdown(self, how: int) -> None:
        self._check()
        if self.peer is None:
            raise _error(errno.ENOTCONN)
        self._end()
        self._notify()

    def _end(self) -> None:
        if self.peer is not None and not self._is_shut:
            self._is_shut = True
            self._send(b"")

    def close(self) -> None:
        if self._is_closed:
            return
        if self._waiting is not None:
            if self.network.listeners.get(self.name) is self:
                del self.network.listeners[self.name]
            for connection in self._waiting:
                connection.close()
        self._end()
        self._is_closed = True
        self.network.sockets.pop(self.descriptor, None)

    def _check(self) -> None:
        if self._is_closed:
            raise _error(errno.EBADF)

    def _notify(self) -> None:
        self.when_ready(self.descriptor)

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


RECORD = 2**14
"""Bytes that TLS encrypts together."""


class EncryptedSocket:
    """A socket in memory with TLS: as much of `ssl.SSLSocket` as tornado uses."""

    def __init__(
        self, plain: Socket, context: ssl.SSLContext, server_side: bool, server_hostname: str | None
    ) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side, server_hostname)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls if hasattr(self._tls, name) else self._plain, name)

    def do_handshake(self) -> None:
        self._through(self._tls.do_handshake)

    def send(self, content: Any, flags: int = 0) -> int:
        if not self._plain.ready & EVENT_WRITE:
            raise ssl.SSLWantWriteError(ssl.SSL_ERROR_WANT_WRITE, "no room")
        return int(self._through(self._tls.write, memoryview(content)[:RECORD]))

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        try:
            return int(self._through(self._tls.read, nbytes or len(buffer), buffer))
        except ssl.SSLEOFError:  # of a peer that does not say that it ends
            return 0

    def _through(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call after what has arrived was put into TLS, and send what TLS wants to send."""
        with suppress(BlockingIOError):
            while piece := self._plain.recv(ROOM):
                self._incoming.write(piece)
            self._incoming.write_eof()
        try:
            return call(*arguments)
        finally:
            if self._outgoing.pending:
                self._plain.push(self._outgoing.read())


class SocketModule(types.ModuleType):
    """In place of the module `socket` in tornado: in turns its sockets are in memory."""

    def __init__(self, network: Callable[[], Network]) -> None:
        super().__init__(socket.__name__)
        self._network = network

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)

    def socket(self, *arguments: Any, **keywords: Any) -> Any:
        if threads.active() is None:
            return socket.socket(*arguments, **keywords)
        return Socket(self._network(), *arguments, **keywords)
