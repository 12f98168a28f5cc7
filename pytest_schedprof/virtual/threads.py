"""Locks, threads and clocks of a process whose tests can run in turns.

They are put in the place of Python's own before dask is imported, which keeps many of them. Outside
of a test in turns they do what Python's own do. Conditions, events, semaphores, queues, futures and
executors are made of these.
"""

from __future__ import annotations

import ctypes
import os
import queue
import runpy
import sys
import threading
import time
import uuid
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import thread as pools
from functools import wraps
from hashlib import blake2b
from typing import Any, NoReturn

from pytest_schedprof.virtual.relay import NS, Relay, Runner, State

EPOCH_S = 1_800_000_000.0
"""What the clock on the wall shows when a test begins."""

SINCE_S = 1000.0
"""What the loops' clocks show then."""

CLOCKS = {
    "time": EPOCH_S,
    "monotonic": SINCE_S,
    "perf_counter": SINCE_S,
    "thread_time": 0.0,
    "process_time": 0.0,
}
"""What each clock shows when a test begins. CPU time passes as any."""

ENDING_NS = 200_000
"""How long a thread takes to end. It is more than a message on its way, as outside of turns: tests
wait for a worker's threads, and expect that the scheduler has heard of their end."""

_relay: Relay | None = None
"""Of the test that runs in turns now."""

is_installed = False
"""Whether the locks of this process can take turns."""


def active() -> Relay | None:
    """Return the relay in which this thread takes turns, if any."""
    relay = _relay
    return relay if relay is not None and relay.current() is not None else None


def begin() -> Relay:
    """Begin the turns of a test, in its thread."""
    global _relay
    _relay = Relay()
    return _relay


def end() -> None:
    """End the turns of the test; threads that are left run on."""
    global _relay
    relay, _relay = _relay, None
    if relay is not None:
        relay.end()


class Lock:
    """In place of `threading.Lock`: who waits for it lets others run."""

    __slots__ = ("__weakref__", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._waiting: deque[Runner] | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._lock.acquire(False):
            return True
        relay = active() if blocking else None
        if relay is None:
            return self._lock.acquire(blocking, timeout)
        return self._acquire_in_turns(relay, timeout)

    def _acquire_in_turns(self, relay: Relay, timeout: float) -> bool:
        runner = relay.current()
        assert runner is not None
        until = None if timeout < 0 else relay.now + int(timeout * NS) + 1
        if self._waiting is None:
            self._waiting = deque()
        while True:
            self._waiting.append(runner)
            try:
                is_woken = relay.wait(until)
            finally:
                if runner in self._waiting:
                    self._waiting.remove(runner)
            if runner.is_free:
                return self._lock.acquire(True, timeout)
            if self._lock.acquire(False):
                return True
            if not is_woken:
                return False

    def release(self) -> None:
        self._lock.release()
        relay = _relay
        if self._waiting and relay is not None:
            relay.wake(self._waiting.popleft())

    def locked(self) -> bool:
        return self._lock.locked()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._lock, self._waiting = allocate_lock(), None

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")


LAUNCH = (
    "import sys; sys.flags.safe_path or sys.path.append(sys.path.pop(0)); "
    f"from {__name__} import launch; launch()"
)
"""Code of a new process in which tests can run in turns.

Files in the working directory are behind the standard library until the program begins.
"""

SEED = {"PYTHONHASHSEED": "0"}
"""Sets of strings have one order in all sessions, whichever seed the first process had."""

ADDR_NO_RANDOMIZE = 0x0040000


def replace_process(command: Sequence[str]) -> NoReturn:
    """Run another program of Python in this process, with one hash seed and one place of memory.

    Addresses order sets of classes, and before Python 3.12 those of tuples with None. Where the
    system forbids it, they stay random.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
    os.execve(sys.executable, [sys.executable, *command], {**os.environ, **SEED})


def launch() -> None:
    """Run the program that the arguments name in this process, which is new."""
    if not os.environ.items() >= SEED.items():
        replace_process(sys.orig_argv[1:])
    install()
    program, *arguments = sys.argv[1:]
    sys.argv = [program, *arguments]
    if not sys.flags.safe_path:
        sys.path.insert(0, sys.path.pop())
    if program.startswith("-"):  # the options and the code of a worker of pytest-xdist
        exec(arguments[-1], vars(sys.modules["__main__"]))
    elif program == PYTEST:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        if not sys.flags.safe_path:
            sys.path[0] = os.path.dirname(program)
        runpy.run_path(program, run_name="__main__")


PYTEST = "pytest"
"""The program if it is run as a module; else it is the path of a script."""


def install() -> None:
    """Replace locks, threads, clocks and names of this process, for good."""
    global is_installed
    assert "dask" not in sys.modules, "dask keeps what it gets"
    threading.Lock = threading._allocate_lock = Lock  # type: ignore
    threading._CRLock = None  # type: ignore
    threading._active_limbo_lock = threading.RLock()  # type: ignore
    pools._global_shutdown_lock = Lock()  # type: ignore
    queue.SimpleQueue = queue._PySimpleQueue  # type: ignore
    _replace_threads()
    _replace_clocks()
    uuid.uuid1, uuid.uuid4 = in_turns(uuid.uuid1, _uuid), in_turns(uuid.uuid4, _uuid)
    is_installed = True


def _uuid(relay: Relay) -> uuid.UUID:
    """Return a name by the function that asks for it, which the names of others do not change."""
    caller = sys._getframe(2)
    place = f"{caller.f_globals.get('__name__')}:{caller.f_code.co_name}"
    relay.names[place] += 1
    digest = blake2b(f"{place} {relay.names[place]}".encode(), digest_size=16).digest()
    return uuid.UUID(bytes=digest, version=4)


def in_turns(real: Callable[..., Any], value: Callable[[Relay], Any]) -> Callable[..., Any]:
    """Return a function that in turns returns a value of the relay's."""

    @wraps(real)  # with its name it is pickled as the one that it replaces
    def function(*args: Any, **keywords: Any) -> Any:
        relay = active()
        return real(*args, **keywords) if relay is None else value(relay)

    return function


def _replace_clocks() -> None:
    for name, start_s in CLOCKS.items():
        _replace_clock(name, int(start_s * NS))
    threading._time = queue.time = time.monotonic  # type: ignore[attr-defined]
    time.sleep = _sleeping(time.sleep)


def _replace_clock(name: str, start: int) -> None:
    in_ns = f"{name}_ns"
    for attribute, unit in ((name, NS), (in_ns, 1)):

        def reading(relay: Relay, unit: int = unit) -> float:
            now = start + relay.reading()
            return now / unit if unit > 1 else now

        setattr(time, attribute, in_turns(getattr(time, attribute), reading))


def _sleeping(real: Any) -> Any:
    @wraps(real)
    def sleep(seconds: float, /) -> None:
        relay = active()
        if relay is None or seconds < 0:  # which is an error
            real(seconds)
            return
        until = relay.now + int(seconds * NS)
        if seconds == 0:
            relay.give_way()
        while relay.now < until and not relay.is_over:
            relay.wait(until)

    return sleep


HASH = "_schedprof_hash"
"""Attribute of what has a steady hash."""


def steady_hash(self: Any) -> int:
    """Return a hash that is no address, for what is kept in sets, whose order hangs on it."""
    try:  # not by its own `__getattr__`: distributed's rpc has whatever one asks for
        known: int = object.__getattribute__(self, HASH)
    except AttributeError:
        relay = active()
        known = object.__hash__(self) if relay is None else next(relay.hashes)
        try:
            setattr(self, HASH, known)
        except AttributeError:  # it has slots; equal hashes are in the order in which they came
            return hash(type(self).__qualname__)
    return known


RUNNER = "_schedprof_runner"
"""Attribute of a thread that was started in turns: its relay and its runner."""

_start: Any = threading.Thread.start
_bootstrap: Any = threading.Thread._bootstrap  # type: ignore[attr-defined]
_join: Any = threading.Thread.join


def _replace_threads() -> None:
    """Let threads that are started in turns take turns."""
    thread: Any = threading.Thread
    thread.start, thread._bootstrap, thread.join = _started, _run, _joined
    thread.__hash__ = steady_hash


def _runner_of(thread: Any) -> tuple[Any, Any]:
    """Return the relay and the runner of a thread; None twice for one that takes no turns."""
    pair: tuple[Any, Any] = getattr(thread, RUNNER, (None, None))
    return pair


def _started(thread: Any) -> None:
    if (relay := active()) is None:
        _start(thread)
        return
    before, runner = _runner_of(thread), relay.enter(thread.name)
    setattr(thread, RUNNER, (relay, runner))
    try:
        _start(thread)
    except RuntimeError:  # it was started before, or the system has no room for another one
        setattr(thread, RUNNER, before)
        relay.forget(runner)
        raise


def _run(thread: Any) -> None:
    relay, runner = _runner_of(thread)
    if relay is None:
        _bootstrap(thread)
        return
    runner.gate.acquire()
    if not runner.is_free:
        relay.run(runner)
    try:
        _bootstrap(thread)
    finally:
        if not (runner.is_free or relay.is_over):
            relay.wait(relay.now + ENDING_NS)
        if not runner.is_free:
            relay.leave(runner)


def _joined(thread: Any, timeout: float | None = None) -> None:
    relay = active()
    other, runner = _runner_of(thread)
    if relay is None or other is not relay or runner is relay.current():
        _join(thread, timeout)
        return
    until = None if timeout is None else relay.now + int(max(timeout, 0) * NS)
    while runner.state is not State.DONE and not relay.is_over:
        runner.joiners.append(relay.current())
        if not relay.wait(until):
            return
    _join(thread)
