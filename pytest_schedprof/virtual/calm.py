"""Tests that make their own clusters, in virtual time: a real scheduler, real workers and clients.

Each run of a test has the same events, whatever else the machine does: nothing is drawn, or
everything from one seed (`weather.py`). It needs a process whose locks were replaced before dask
was imported (`threads.py`). Threads and event loops take turns (`relay.py`), messages pass through
a network in memory (`network.py`), and what differs between processes is made equal
(`sameness.py`).
"""

from __future__ import annotations

import asyncio
import importlib
import platform
import selectors
import signal
import socket
import ssl
import subprocess
import sys
import time
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from multiprocessing.process import BaseProcess
from selectors import SelectorKey
from threading import main_thread
from typing import Any

import dask.config
from dask.base import get_scheduler

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.virtual import threads
from pytest_schedprof.virtual.network import (
    FIRST_DESCRIPTOR,
    EncryptedSocket,
    Network,
    Socket,
    SocketModule,
)
from pytest_schedprof.virtual.relay import NS, Event, RefusalError, Runner
from pytest_schedprof.virtual.sameness import make_equal, steady_hashes, steady_readings
from pytest_schedprof.virtual.threads import SINCE_S, steady_hash
from pytest_schedprof.virtual.weather import OF_ROUNDS, Weather

ROUND_NS = 10_000
"""How long a round of an event loop takes."""

LOOK_S = 0.01
"""How often a loop that takes no turns looks for work, of which no descriptor tells it."""


class Selector(selectors.BaseSelector):
    """Waits in turns for sockets in memory; real descriptors are looked at besides."""

    def __init__(self, network: Network) -> None:
        self._network, self._relay = network, network.relay
        self._keys: dict[int, SelectorKey] = {}
        self._hot: dict[int, None] = {}
        """Sockets that may be ready, in the order in which they became so."""
        self._real = selectors.DefaultSelector()
        self._runner: Runner | None = None
        self._is_rung = False

    def _is_real(self, descriptor: int) -> bool:
        return 0 <= descriptor < FIRST_DESCRIPTOR

    @staticmethod
    def _descriptor(file: Any) -> int:
        number: int = file if isinstance(file, int) else file.fileno()
        return number

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        descriptor = self._descriptor(fileobj)
        if self._is_real(descriptor):
            return self._real.register(fileobj, events, data)
        if descriptor in self._keys:
            raise KeyError(descriptor)
        if descriptor in self._network.sockets:
            self._network.sockets[descriptor].when_ready = self._notice
        return self._put(fileobj, descriptor, events, data)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        descriptor = self._descriptor(fileobj)
        if self._is_real(descriptor):
            return self._real.modify(fileobj, events, data)
        return self._put(fileobj, descriptor, events, data)

    def _put(self, fileobj: Any, descriptor: int, events: int, data: Any) -> SelectorKey:
        key = self._keys[descriptor] = SelectorKey(fileobj, descriptor, events, data)
        self._hot[descriptor] = None
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        descriptor = self._descriptor(fileobj)
        if self._is_real(descriptor):
            return self._real.unregister(fileobj)
        self._hot.pop(descriptor, None)
        return self._keys.pop(descriptor)

    def get_key(self, fileobj: Any) -> SelectorKey:
        descriptor = self._descriptor(fileobj)
        if self._is_real(descriptor):
            return self._real.get_key(fileobj)
        return self._keys[descriptor]

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return {**(self._real.get_map() or {}), **self._keys}

    def close(self) -> None:
        self._real.close()
        self._keys.clear()

    def _notice(self, descriptor: int) -> None:
        self._hot[descriptor] = None
        self.ring()

    def ring(self) -> None:
        """Let the loop go on, which may be called from any thread."""
        self._is_rung = True
        if self._runner is not None and not self._relay.is_over:
            self._relay.wake(self._runner)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        relay = self._relay
        runner = relay.current()
        if relay.is_over or runner is None:
            return self._real.select(LOOK_S if timeout is None else min(timeout, LOOK_S))
        self._runner = runner
        relay.now += ROUND_NS
        if relay.weather is not None:
            loop = f"the loop of {runner.name}"
            relay.now += relay.weather.delay(OF_ROUNDS, loop, relay.now, lambda: loop)
        if self._is_rung or (timeout is not None and timeout <= 0):
            relay.give_way()
        else:
            until = None if timeout is None else relay.now + int(timeout * NS) + 1
            while not (self._is_rung or self._collect()) and relay.wait(until):
                pass
        self._is_rung = False
        return self._collect()

    def _collect(self) -> list[tuple[SelectorKey, int]]:
        events = []
        for descriptor in list(self._hot):
            key, socket = self._keys.get(descriptor), self._network.sockets.get(descriptor)
            if key is not None and socket is not None and (mask := key.events & socket.ready):
                events.append((key, mask))
            else:
                del self._hot[descriptor]
        if len(self._real.get_map() or ()) > 1:  # others than the loop's own
            events += self._real.select(0)
        return events


class _Task(asyncio.Task[Any]):
    __hash__ = steady_hash


class _Future(asyncio.Future[Any]):
    __hash__ = steady_hash


class CalmLoop(asyncio.SelectorEventLoop):
    """An event loop that waits in turns."""

    def __init__(self, network: Network) -> None:
        self._relay = network.relay
        self._waiting = Selector(network)
        super().__init__(self._waiting)
        self.set_task_factory(lambda loop, coro, **more: _Task(coro, loop=loop, **more))

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        if self._relay.journal is not None:
            self._relay.note(f"calls {_name_of(callback)}")
        return super().call_soon(callback, *args, context=context)

    def time(self) -> float:
        return SINCE_S + self._relay.now / NS

    def _write_to_self(self) -> None:
        self._waiting.ring()


def _name_of(callback: Any) -> str:
    while isinstance(callback, partial):
        callback = callback.func
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        callback = task.get_coro()
    name: str = getattr(callback, "__qualname__", type(callback).__name__)
    return name


def _name_of_port(port: int) -> str:
    """Return whose port it is, at either end of a connection; its number if nobody is known."""
    from distributed import Client, Scheduler, Worker

    ends = [("the scheduler", scheduler.address_safe) for scheduler in Scheduler._instances]
    for worker in Worker._instances:
        ends += [(f"worker {worker.name}", worker.address_safe)]
        ends += [(f"worker {worker.name}", _near_end(worker.batched_stream))]
    ends += [("the client", _near_end(client.scheduler_comm)) for client in Client._instances]
    names = (name for name, address in ends if address.endswith(f":{port}"))
    return next(names, f"port {port}")


def _near_end(stream: Any) -> str:
    address: str = getattr(getattr(stream, "comm", None), "local_address", "")
    return address


class World:
    """The turns, the network and all else that is the same in each run of a test."""

    def __init__(self) -> None:
        self.relay = threads.begin()
        self.network = Network(self.relay, _name_of_port)
        self.refusal = ""
        """Why the test cannot run in virtual time; else empty."""

    def refuse(self, why: str) -> RefusalError:
        """End the test, in whichever of its threads this is; return the error to raise."""
        self.refusal = why
        error = RefusalError(why)
        self.relay.fail(error)
        return error


_world: World | None = None


def prepare() -> None:
    """Let tornado and dask, which are imported, use the network and the loops of a world."""
    from distributed.versions import get_versions
    from tornado import netutil, tcpclient
    from tornado.httpserver import HTTPServer
    from tornado.ioloop import IOLoop

    of_tornado: tuple[Any, ...] = (netutil, tcpclient)
    if isinstance(of_tornado[0].socket, SocketModule):
        return
    for module in of_tornado:
        module.socket = SocketModule(_network)
    platform.processor()  # dask asks for it, and the first time a program tells
    for base in (IOLoop, HTTPServer, netutil.Resolver):  # each chooses its class the first time
        base.configured_class()
    get_scheduler(scheduler="sync")  # it imports distributed the first time
    get_versions()
    for side in ("scheduler", "worker"):
        for module in dask.config.get(f"distributed.{side}.http.routes"):  # some log
            importlib.import_module(module)
    _refuse_processes()
    _refuse_real_sockets()
    ssl.SSLContext.wrap_socket = _encrypting(ssl.SSLContext.wrap_socket)  # type: ignore
    steady_hashes()
    steady_readings()
    new_event_loop = asyncio.new_event_loop

    def loop_of_world() -> asyncio.AbstractEventLoop:
        return new_event_loop() if threads.active() is None else CalmLoop(_network())

    asyncio.new_event_loop = asyncio.events.new_event_loop = loop_of_world


def _refuse_processes() -> None:
    """Let no test in turns start another process."""
    from distributed import Nanny

    def refused(real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def function(*arguments: Any, **keywords: Any) -> Any:
            if threads.active() is not None and _world is not None:
                raise _world.refuse("it starts another process")
            return real(*arguments, **keywords)

        return function

    for owner, name in (
        (Nanny, "__init__"),
        (BaseProcess, "start"),
        (subprocess.Popen, "__init__"),
    ):
        setattr(owner, name, refused(getattr(owner, name)))


def _refuse_real_sockets() -> None:
    """Let none connect to a listener in memory, which it cannot reach."""

    def checked(real: Any) -> Any:
        @wraps(real)
        def connect(sock: socket.socket, address: Any) -> Any:
            if _world is not None and _world.network.hears(address):
                raise _world.refuse("it connects to dask by sockets of its own")
            return real(sock, address)

        return connect

    of_sockets: Any = socket.socket
    for name in ("connect", "connect_ex"):
        setattr(of_sockets, name, checked(getattr(of_sockets, name)))


def _encrypting(real: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def wrap_socket(context: ssl.SSLContext, sock: Any, *more: Any, **keywords: Any) -> Any:
        if not isinstance(sock, Socket):
            return real(context, sock, *more, **keywords)
        return EncryptedSocket(
            sock, context, keywords.get("server_side", False), keywords.get("server_hostname")
        )

    return wrap_socket


def _network() -> Network:
    assert _world is not None
    return _world.network


@contextmanager
def calm(journal: list[Event] | None = None, weather: Weather | None = None) -> Iterator[World]:
    """Let the body run in virtual time, and write what happens in a journal, if there is one."""
    global _world
    with ExitStack() as undo:
        make_equal(undo)
        _world = World()
        _world.relay.journal, _world.relay.weather = journal, weather
        undo.callback(_end_world)
        undo.callback(_watch(_world))
        _renew_offloading(undo)
        yield _world


PATIENCE_S = 10
"""Seconds after which a thread with the turn that does nothing is taken for blocked."""


def _watch(world: World) -> Callable[[], None]:
    """Refuse a test if it waits in real time; return what ends the watch."""
    relay, main = world.relay, get_ident()
    if main != main_thread().ident:  # no signal can end a wait of another one
        return lambda: None
    end = allocate_lock()
    end.acquire()

    def interrupt(*_: object) -> None:
        raise world.refuse(WAITS)

    def look() -> None:
        seconds, before = 0, (0, 0.0)
        while not end.acquire(timeout=1):
            state = relay.turns, _cpu_time(relay.running)
            is_still = state == before and not _is_debugged(relay.running)
            seconds = seconds + 1 if is_still else 0
            before = state
            if seconds == PATIENCE_S:
                sys.stderr.write(f"schedprof: {WAITS}:\n{relay.describe()}\n")
                world.refuse(WAITS)
                if not relay.take_turn():
                    signal.pthread_kill(main, signal.SIGURG)

    handler = signal.signal(signal.SIGURG, interrupt)
    start_new_thread(look, ())

    def stop() -> None:
        end.release()
        signal.signal(signal.SIGURG, handler)

    return stop


WAITS = "it waits in real time"

DEBUGGERS = frozenset({"_pydevd_bundle", "bdb", "debugpy", "pdb", "pydevd"})
"""Packages whose prompt somebody may look at."""


def _is_debugged(runner: Runner) -> bool:
    frame = sys._current_frames().get(runner.ident)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in DEBUGGERS:
            return True
        frame = frame.f_back
    return False


def _cpu_time(runner: Runner) -> float:
    """Return the CPU time of its thread; of the process on macOS, which tells no other."""
    if not runner.ident:  # its thread has not begun
        return 0.0
    if not hasattr(time, "pthread_getcpuclockid"):
        return round(time.process_time(), 2)
    return round(time.clock_gettime(time.pthread_getcpuclockid(runner.ident)), 2)


def _end_world() -> None:
    global _world
    threads.end()
    _world = None


def _renew_offloading(undo: ExitStack) -> None:
    """Give dask an executor whose thread takes turns, in place of that which lasts."""
    from distributed import utils

    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="Dask-Offload")
    pool.submit(bool).result()
    replace(utils, "_offload_executor", pool, undo)
    undo.callback(pool.shutdown, wait=False)  # after a Ctrl-C nobody would have the turn
