"""Event loops in virtual time: that of the cluster's process, and those of its clients.

An ordinary loop sleeps until its next timer. That of the cluster sets its clock to that timer,
provided that the test's process does nothing but wait.

The process that has the turn handles messages, and the other one waits. The cluster sends its time
with the turn. The test's process sends in return when its next timer is due.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from select import select
from selectors import EVENT_WRITE, SelectorKey
from typing import TYPE_CHECKING, Any

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.errors import StuckError
from pytest_schedprof.virtual.stories import Fault, names_at_work, tell_standstill

if TYPE_CHECKING:
    from pytest_schedprof.virtual.conductor import Conductor


class AtOnce(Executor):
    """Runs functions at once: a thread would take real time while the clock moves."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        """Run a function and return its result as a future."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **keywords))
        except Exception as error:
            future.set_exception(error)
        return future


REAL = (time.time, time.monotonic)
"""The clocks on which decisions of the scheduler depend. CPU time stays real."""

EPOCH = 1_000_000.0
"""Virtual time at which a cluster starts, because distributed expects no time near 0."""

RESOLUTION_S = 2e-10
"""Timers within this time are due. It is more than the distance of two floats at `EPOCH`."""

TICK_S = 1e-9


def at_least_a_tick(delay: float) -> float:
    """Return a delay that moves the clock.

    Callers often set a timer that came too soon, because of rounding, again for a tiny delay. If
    that did not move the clock, they would do so for ever.
    """
    return max(delay, TICK_S) if delay > 0 else delay


def rounded(moment: float) -> float:
    """Return a time in whole nanoseconds, so that sums in another order give the same time."""
    return round(moment, 9)


HOLLOW = ("executor", "hollow_server", "hollow_worker", "worker")
"""Modules of this room that replace a worker's, and read its clock."""

PACKAGES = ("dask.", "distributed.", *(f"pytest_schedprof.virtual.{name}." for name in HOLLOW))


OUTQ = 0x5411
"""Linux's ioctl for the number of bytes of a socket that the other end has not received."""


class Turns:
    """One end of the connection by which the turn passes between cluster and test."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._received = b""

    def give(self, **message: Any) -> None:
        """Give the turn away."""
        self.connection.sendall(json.dumps(message).encode() + b"\n")

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
        message: dict[str, Any] = json.loads(line)
        return message


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


def replace_clocks(reading: Callable[[], float]) -> ExitStack:
    """Give all imported modules of dask another clock; closing the stack undoes it."""
    undo = ExitStack()
    for module in list(sys.modules.values()):
        if f"{getattr(module, '__name__', '')}.".startswith(PACKAGES):
            for name, value in list(vars(module).items()):
                if any(value is clock for clock in REAL):
                    replace(module, name, reading, undo)
    return undo


MOVES = 100
"""Moves of the clock between two checks for signals."""

MOST_ROUNDS = 20_000
"""Rounds of the loop at one time after which something is taken to run for ever. Thousands of
requests at one time are handled side by side, in a few hundred rounds."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Skips the time in which nothing happens."""

    def __init__(self) -> None:
        self.now = EPOCH
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """Timers by time and number. The heap of asyncio compares handles in Python, 60 times a
        task with 10,000 workers; tuples are compared in C."""
        self._numbers = itertools.count()
        self._cancelled = 0
        self.turns: Turns | None = None
        """Connection to the test's process; without one nothing stops the clock."""
        self.owes = False
        """Whether something was sent to the test's process since it last had the turn."""
        self.is_away = False
        """Whether the test's process has the turn."""
        self.rounds = 0
        """Rounds since there was last nothing to do, or a client sent a graph."""
        self.deadline: float | None = None
        """When the next timer of the test's process is due."""
        self.aside: AbstractContextManager[Any] = nullcontext()
        """Surrounds each turn of the test's process, to leave it out of measurements: the number of
        turns depends on the speed of the two processes."""
        self.find_error: Callable[[], Fault | None] = lambda: None
        """Returns the first error since its last call, if any."""
        self.find_fault: Callable[[bool], Fault | None] = lambda is_patient: None
        """Returns why the test must end, if it must, given whether the test waits for ever."""
        self._is_patient = False
        self._is_sending = False
        """Whether something was under way to the test's process when it got the turn."""
        self._fault: Fault | None = None
        self._waiting = _Selector(self)
        super().__init__(self._waiting)
        self._clock_resolution = RESOLUTION_S

    def call_later(  # type: ignore[override]
        self, delay: float, *args: Any, **keywords: Any
    ) -> asyncio.TimerHandle:
        """Call a function after a delay, before which the clock moves."""
        return super().call_later(at_least_a_tick(delay), *args, **keywords)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call a function at a time, after earlier timers of that time."""
        timer = asyncio.TimerHandle(rounded(when), callback, args, self, context)
        heapq.heappush(self._timers, (timer.when(), next(self._numbers), timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Forget cancelled timers when they are more than the others."""
        self._cancelled += 1
        if self._cancelled > 100 and 2 * self._cancelled > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def time(self) -> float:
        return self.now

    def next_timer(self) -> float | None:
        """Return when the next timer is due."""
        while self._timers and self._timers[0][2].cancelled():
            self._next()
        return self._timers[0][0] if self._timers else None

    def has_due(self) -> bool:
        return bool(self._timers) and self._timers[0][0] < self.now + RESOLUTION_S

    def ripen(self) -> None:
        """Let the round of the loop that begins now call the timers that are due."""
        while self.has_due():
            self._ready.append(self._next())  # type: ignore[attr-defined]

    def _next(self) -> asyncio.TimerHandle:
        timer: Any = heapq.heappop(self._timers)[2]
        timer._scheduled = False
        self._cancelled -= timer.cancelled()
        return timer  # type: ignore[no-any-return]

    def awaited(self) -> Iterator[Any]:
        """Yield the functions that timers will call."""
        handles: Iterator[Any] = (timer[2] for timer in self._timers)
        return (handle._callback for handle in handles if not handle.cancelled())

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function at once: a thread would take real time while the clock moves."""
        return asyncio.wrap_future(AtOnce().submit(func, *args), loop=self)

    def move(self) -> None:
        """Set the clock to the next timer of this process or of the test's process."""
        if fault := self.find_error() or self.find_fault(self._is_patient):
            self._fault, self.owes = fault, True
            return
        target = self.next_timer()
        if self.deadline is not None and (target is None or self.deadline <= target):
            self.now, self.owes = max(self.now, self.deadline), True
        elif target is not None:
            self.now = max(self.now, target)
        else:
            self.owes = True  # the test's process decides whether to wait for ever

    def hand_over(self) -> None:
        """Let the test's process work until it waits again."""
        assert self.turns is not None
        if not self.is_away:
            self.owes, self.is_away = False, True
            self._fault = self._fault or self.find_error()
            acknowledge(self._waiting.get_map())
            self._is_sending = not have_arrived(self._waiting.get_map())
            self.turns.give(now=self.now, fault=self._fault)
        woken, _, _ = select([self.turns.connection, self._ssock], [], [])  # type: ignore[attr-defined]
        if self.turns.connection in woken:  # otherwise a signal came, or the parent has ended
            self.is_away = False
            self._take(self.turns.take())

    def _take(self, answer: dict[str, Any] | None) -> None:
        fault, self._fault = self._fault, None
        if answer is None:
            self.stop()
        elif fault is not None and not answer["heard"]:
            # Any test notices the end of this process, whose log ends with the reason.
            sys.stderr.write(f"{fault.text}\n")
            raise StuckError(fault.text.partition("\n")[0])
        else:
            self.deadline, self._is_patient = answer["deadline"], answer["patient"]
            # A message that is larger than the buffers arrives in parts. On a busy machine it may
            # arrive after a later turn, in which it was not read then.
            is_sending = self._is_sending or not have_arrived(self._waiting.get_map())
            self.owes |= answer["unsent"] or is_sending


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._moves = 0
        self._is_drained = False
        """Whether all that the test's process sent in its last turn has been read."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what can be read or written; move the clock if nothing can."""
        # While callbacks are ready, nothing is read.
        is_busy = (timeout is not None and timeout <= 0) or self._loop.has_due()
        self._loop.rounds = self._loop.rounds + 1 if is_busy else 0
        if self._loop.rounds > MOST_ROUNDS and self._loop.turns is not None:
            raise StuckError(tell_standstill(names_at_work(asyncio.all_tasks(self._loop))))
        events = [] if is_busy else self._look()
        self._loop.ripen()
        return events

    def _look(self) -> list[Any]:
        loop = self._loop
        if not loop.is_away and (events := self._arrived()):
            return events
        if loop.turns is None:
            if (target := loop.next_timer()) is None:
                return super().select(None)
            loop.now = max(loop.now, target)
        elif loop.owes or loop.is_away:
            with loop.aside:
                loop.hand_over()
            self._is_drained = False
            # Still away, a signal has woken it, which would wake it again if it stayed unread.
            return super().select(0) if loop.is_away else []
        else:
            loop.move()
        return []

    def _arrived(self) -> list[Any]:
        """Return what can be read or written.

        The test's process sends nothing between two of its turns. Signals and the end of the parent
        can wait for a few moves of the clock.
        """
        self._moves += 1
        if self._is_drained and self._moves % MOVES:
            return []
        events = super().select(0)
        self._is_drained = not events and self._loop.turns is not None
        return events


SPINS = 1000
"""Rounds of a loop at one virtual time after which it polls: a coroutine may repeat
`await asyncio.sleep(0)` until something has come. Then the loop must wait."""

SPINS_MORE = 10
"""Rounds after which it must wait again."""

POLL_S = 0.001
"""Virtual time for which it waits."""


class GovernedLoop:
    """Gives a loop the virtual clock, and lets it rest instead of waiting for the network."""

    def __init__(self, loop: Any, conductor: Conductor) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.clients: list[Any] = []
        self.is_woken = True
        """Whether it may have something to do."""
        self.results_under_way = 0
        """Number of jobs in threads that have ended without the loop's knowledge."""
        self._rounds = 0
        """Rounds of the loop since it last had nothing to do."""
        self._conductor = conductor
        self._selector = loop._selector
        self._select, self._real_time = self._selector.select, loop.time
        self._real_run = loop.run_in_executor
        self._undo = ExitStack()
        self._take_over(loop)

    @property
    def is_governed(self) -> bool:
        """Whether it runs an open client, and the cluster lives."""
        if self._conductor.is_gone or not self.loop.is_running():
            return False
        return any(client.status != "closed" for client in self.clients)

    @property
    def deadline(self) -> float | None:
        """When its next timer is due."""
        scheduled = self.loop._scheduled
        return scheduled[0].when() if scheduled else None

    def has_timers_of_test(self) -> bool:
        """Whether a timer is none of those that its clients set again and again."""
        periodic = [
            callback for client in self.clients for callback in client._periodic_callbacks.values()
        ]
        timers = [callback._timeout for callback in periodic]
        return any(timer not in timers for timer in self.loop._scheduled if not timer.cancelled())

    @property
    def sockets(self) -> Any:
        return self._selector.get_map()

    def _take_over(self, loop: Any) -> None:
        self._shift_timers(self._conductor.now - self._real_time())
        replace(loop, "_clock_resolution", RESOLUTION_S, self._undo)
        later, write = loop.call_later, loop._write_to_self

        def call_later(delay: float, *args: Any, **keywords: Any) -> Any:
            return later(at_least_a_tick(delay), *args, **keywords)

        def woken() -> None:
            self._conductor.wake(self)
            write()

        replace(loop, "time", self._now, self._undo)
        replace(loop, "call_later", call_later, self._undo)
        replace(loop, "run_in_executor", self._run, self._undo)
        replace(loop, "_write_to_self", woken, self._undo)
        replace(self._selector, "select", self._selected, self._undo)

    def lend_clock(self, owner: Any) -> None:
        """Give Tornado's loop the virtual clock too: its timers ask it for the time."""
        if vars(owner).get("time") != self._now:
            replace(owner, "time", self._now, self._undo)

    def _now(self) -> float:
        return self._conductor.now

    def _run(self, executor: Any, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function in a thread; the clock stands still until the loop knows its result.

        The thread may be interrupted between the end of the function and the moment at which it
        wakes the loop. A function for another process is sent there as it is.
        """
        job = self._conductor.begin_job(executor or self.loop)

        def work() -> Any:
            with self._conductor.at_work(job, self):
                return function(*args)

        is_elsewhere = isinstance(executor, ProcessPoolExecutor)
        call = partial(function, *args) if is_elsewhere else work
        try:
            running = self._real_run(executor, call)
        except BaseException:  # it takes no more
            self._conductor.note_result(job, self)
            raise
        running.add_done_callback(lambda _: self._conductor.note_result(job, self))
        return running

    def _selected(self, timeout: float | None = None) -> Any:
        """Replace `select`: read messages when nothing else is left to do."""
        if timeout is not None and timeout <= 0:
            self._rounds += 1
            if not (self.is_governed and self._rounds > SPINS):
                return []
            self._rounds -= SPINS_MORE
            self.loop.call_later(POLL_S, lambda: None)
        else:
            self._rounds = 0
        if events := self._select(0):
            return events
        if self.is_governed:
            self._conductor.rest(self)
        else:
            self.let_go()
        return self._select(0)

    def let_go(self) -> None:
        """Give the loop its own clock back."""
        self._conductor.release(self)
        self._undo.close()
        self._shift_timers(self._real_time() - self._conductor.now)

    def _shift_timers(self, seconds: float) -> None:
        """Keep the distance of timers when the loop gets another clock."""
        for handle in self.loop._scheduled:
            handle._when += seconds
