"""The network in memory, by which the threads of a test in turns are connected."""

from __future__ import annotations

import errno
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

import pytest
from distributed import Security
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.virtual.calm import LOOK_S, Selector
from pytest_schedprof.virtual.network import (
    FIRST_PORT,
    LATENCY_NS,
    ROOM,
    EncryptedSocket,
    Network,
    Socket,
)
from pytest_schedprof.virtual.relay import NS, Relay, difference
from pytest_schedprof.virtual.weather import Weather


class Place:
    """A network whose time passes as a test says."""

    def __init__(self, seed: int | None = None) -> None:
        self.relay = Relay()
        self.relay.journal = []
        self.relay.weather = None if seed is None else Weather(seed)
        self.network = Network(self.relay, "port {}".format)

    def pass_time(self, seconds: float = 1.0) -> None:
        self.relay.wait(self.relay.now + int(seconds * NS))

    def listener(self, host: str = "127.0.0.1", port: int = 0) -> Socket:
        listener = Socket(self.network)
        listener.bind((host, port))
        listener.listen()
        return listener

    def connecting(self, address: tuple[Any, ...]) -> Socket:
        client = Socket(self.network)
        with pytest.raises(BlockingIOError):
            client.connect(address)
        return client

    def pair(self) -> tuple[Socket, Socket]:
        listener = self.listener()
        client = self.connecting(listener.getsockname())
        self.pass_time()
        server, address = listener.accept()
        assert address == client.getsockname()
        return client, server


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.relay.end()


def failure(call: Callable[[], object]) -> int | None:
    """The number of the error that a call raises; None if it raises none."""
    try:
        call()
    except OSError as error:
        return error.errno
    return None


def read_all(socket: Socket, size: int) -> bytes:
    pieces = []
    while socket.ready & EVENT_READ and (piece := socket.recv(size)):
        pieces.append(piece)
    return b"".join(pieces)


@given(
    st.lists(st.binary(min_size=1, max_size=50), max_size=20),
    st.integers(1, 60),
    st.none() | st.integers(0, 9),
)
def test_what_is_sent_arrives_whole_and_in_order(
    pieces: list[bytes], size: int, seed: int | None
) -> None:
    place = Place(seed)
    client, server = place.pair()
    for piece in pieces:
        assert client.send(piece) == len(piece)
    assert not server.ready & EVENT_READ, "it takes a while"
    place.pass_time(10)
    assert read_all(server, size) == b"".join(pieces)
    assert failure(lambda: server.recv(1)) == errno.EAGAIN
    client.shutdown(2)
    place.pass_time(10)
    assert server.ready & EVENT_READ
    assert server.recv(1) == b"", "the end"
    place.relay.end()


def test_who_reads_nothing_is_sent_no_more_than_fits(place: Place) -> None:
    client, server = place.pair()
    noticed: list[int] = []
    client.when_ready = noticed.append
    assert client.send(bytes(ROOM + 1)) == ROOM
    assert failure(lambda: client.send(b"x")) == errno.EAGAIN
    place.pass_time()
    assert not client.ready & EVENT_WRITE
    buffer = bytearray(ROOM)
    assert server.recv_into(buffer) == ROOM
    assert noticed == [client.fileno()], "there is room again"
    assert client.send(b"x") == 1


def test_what_is_on_its_way_takes_room_too(place: Place) -> None:
    client, server = place.pair()
    client.send(bytes(1000))
    place.pass_time()
    noticed: list[int] = []
    client.when_ready = noticed.append
    assert client.send(bytes(ROOM)) == ROOM - 1000
    assert not client.ready & EVENT_WRITE
    assert len(server.recv(1000)) == 1000
    assert noticed == [client.fileno()], "there is room again"
    assert client.ready & EVENT_WRITE


def test_nobody_listens(place: Place) -> None:
    refused = place.connecting(("127.0.0.1", 9))
    far = place.connecting(("203.0.113.1", 9))
    place.pass_time()
    assert refused.ready & EVENT_WRITE
    assert refused.getsockopt(0, 4) == errno.ECONNREFUSED
    assert refused.getsockopt(0, 4) == 0, "an error is told once"
    assert not far.ready, "nobody answers"
    assert failure(lambda: refused.send(b"x")) == errno.EPIPE
    assert failure(lambda: far.shutdown(2)) == errno.ENOTCONN


def test_a_port_is_taken_until_its_listener_closes(place: Place) -> None:
    listener = place.listener("0.0.0.0", 8786)
    assert failure(lambda: place.listener("127.0.0.1", 8786)) == errno.EADDRINUSE
    waiting = place.connecting(("127.0.0.1", 8786))
    place.pass_time()
    assert listener.ready == EVENT_READ
    listener.close()
    place.pass_time()
    assert waiting.recv(1) == b"", "nobody accepts it any more"
    assert failure(listener.accept) == errno.EBADF
    with place.listener("127.0.0.1", 8786) as again:
        assert again.getsockname() == ("127.0.0.1", 8786)
    assert again.fileno() == -1


def test_no_port_is_given_that_a_listener_has_chosen(place: Place) -> None:
    chosen = place.listener("127.0.0.1", FIRST_PORT)
    assert place.listener("0.0.0.0").getsockname()[1] > FIRST_PORT
    client = place.connecting(chosen.getsockname())
    place.pass_time()
    assert chosen.accept()[1] == client.getsockname()


def test_who_sends_to_one_that_has_closed_is_told(place: Place) -> None:
    client, server = place.pair()
    server.close()
    client.send(b"late")
    place.pass_time()
    assert failure(lambda: client.send(b"x")) == errno.ECONNRESET
    assert failure(lambda: client.recv(1)) == errno.ECONNRESET
    assert client.getsockopt(1, 4) == errno.ECONNRESET


def events(seed: int | None) -> Any:
    place = Place(seed)
    client, server = place.pair()
    for number in range(40):
        client.send(bytes(number + 1))
        place.pass_time(0.0005)
        server.send(b"\x82\xa2op\xa9free-keys\xa4keys\x90")
    place.pass_time()
    weather, journal = place.relay.weather, place.relay.journal
    place.relay.end()
    assert journal
    return journal, [str(event) for event in weather.drawn.values()] if weather else []


def test_a_seed_makes_messages_late_and_says_which() -> None:
    _, nothing = events(None)
    assert nothing == []
    first, late = events(1)
    again, same = events(1)
    assert difference(first, again) == ""
    assert late == same
    assert any("free-keys from port 4000" in line and " ms late" in line for line in late)
    assert LATENCY_NS < 100_000, "what is late is so by more than its way takes"


def test_a_loop_that_a_test_has_left_waits_between_two_looks(place: Place) -> None:
    place.relay.end()
    selector = Selector(place.network)
    begun = time.perf_counter()
    assert selector.select() == []
    assert time.perf_counter() - begun > LOOK_S / 2
    selector.close()


def test_an_encrypted_connection(place: Place) -> None:
    security = Security.temporary()
    of_client = security.get_connection_args("client")["ssl_context"]
    of_server = security.get_listen_args("scheduler")["ssl_context"]
    one, other = place.pair()
    client = EncryptedSocket(one, of_client, server_side=False, server_hostname=None)
    server = EncryptedSocket(other, of_server, server_side=True, server_hostname=None)
    waiting = [client, server]
    for end in (client, server, client, server):
        place.pass_time()
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
            waiting.remove(end)
    assert waiting == []
    assert server.getpeercert()
    assert server.getpeername() == one.getsockname()
    with pytest.raises(ssl.SSLWantReadError):
        server.recv_into(bytearray(1))
    sent, content = 0, bytes(range(256)) * 40_000  # more than there is room for
    while client.ready & EVENT_WRITE:
        sent += client.send(content[sent:])
    with pytest.raises(ssl.SSLWantWriteError):
        client.send(content)
    assert ROOM / 2 < sent < len(content)
    place.pass_time()
    received, buffer = bytearray(), bytearray(10_000)
    while len(received) < sent:
        received += buffer[: server.recv_into(buffer)]
    assert bytes(received) == content[:sent]
    client.close()
    place.pass_time()
    assert server.recv_into(buffer) == 0, "the end"
