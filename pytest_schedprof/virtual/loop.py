"""The event loop of the cluster's process, in virtual time.

Where an ordinary loop would sleep until its next timer, this one sets its clock to that timer. It
does so only if the test's process has nothing to do but wait.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, nullcontext
from select import select
from types import ModuleType
from typing import Any

from tornado.ioloop import IOLoop

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.errors import StuckError
from pytest_schedprof.virtual.stories import Fault, names_at_work, tell_standstill
from pytest_schedprof.virtual.turns import Turns, acknowledge, have_arrived


class AtOnce(Executor):
    """Runs what would run in a thread, which would take real time while the clock moves."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        """Run a function and return its result as a future."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **keywords))
        except Exception as error:
            future.set_exception(error)
        return future


REAL = (time.time, time.monotonic)
"""The readings that decisions of the scheduler depend on. CPU time stays what it is."""

EPOCH = 1_000_000.0
"""Virtual time at which a cluster starts. Nothing of distributed is meant for a time near 0."""

RESOLUTION_S = 2e-10
"""Timers so near to the present are due. It is more than the distance of two floats at `EPOCH`."""

TICK_S = 1e-9


def at_least_a_tick(delay: float) -> float:
    """Return a delay by which the clock really moves.

    A timer that rounding let come too soon is often set again, for a delay that is too small to
    change the clock; it would do so for ever.
    """
    return max(delay, TICK_S) if delay > 0 else delay


def rounded(when: float) -> float:
    """Return a time in whole nanoseconds, so that equal times are equal however they came about."""
    return round(when, 9)


HOLLOW = ("executor", "hollow_server", "hollow_worker", "worker")
"""Modules of this room that run in a worker's stead, and read the clock as it does."""

PACKAGES = ("dask", "distributed", *(f"pytest_schedprof.virtual.{name}" for name in HOLLOW))


def replace_clocks(reading: Callable[[], float]) -> ExitStack:
    """Give all imported modules of dask another clock; closing what is returned undoes it."""
    undo = ExitStack()
    for module in list(sys.modules.values()):
        name = f"{getattr(module, '__name__', '')}."
        if any(name.startswith(f"{each}.") for each in PACKAGES):
            _replace(module, reading, undo)
    return undo


def _replace(module: ModuleType, reading: Callable[[], float], undo: ExitStack) -> None:
    for name, value in list(vars(module).items()):
        if any(value is each for each in REAL):
            replace(module, name, reading, undo)


MOVES = 100
"""How often the clock moves between two looks for signals."""

MOST_PASSES = 20_000
"""How often the loop goes round at one time, until something is said to run for ever. Thousands of
requests at one time are handled side by side, in a few hundred rounds."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Skips the time in which nothing happens."""

    def __init__(self) -> None:
        self.now = EPOCH
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """What is to be called later, by time and number. The heap of asyncio compares handles in
        Python, 60 times a task with 10,000 workers; tuples are compared in C."""
        self._numbers = itertools.count()
        self._cancelled = 0
        self.turns: Turns | None = None
        """Connection to the test's process; without one time passes freely."""
        self.owes = False
        """Whether something was sent to the test's process since it last had the turn."""
        self.is_away = False
        """Whether the test's process has the turn."""
        self.deadline: float | None = None
        """When the next timer of the test's process is due."""
        self.aside: AbstractContextManager[Any] = nullcontext()
        """Around each turn of the test's process, for what measures this one: how often the turn
        goes back and forth depends on how fast the two processes are."""
        self.find_error: Callable[[], Fault | None] = lambda: None
        """Says what went wrong since it was last asked, if anything."""
        self.find_fault: Callable[[bool], Fault | None] = lambda is_patient: None
        """Says why the test must not go on, if so; told whether the test waits for ever."""
        self._is_patient = False
        self._is_sending = False
        """Whether something was under way to the test's process when it was given the turn."""
        self._fault: Fault | None = None
        self._waiting = _Selector(self)
        super().__init__(self._waiting)
        self._clock_resolution = RESOLUTION_S

    def call_later(  # type: ignore[override]
        self, delay: float, *args: Any, **keywords: Any
    ) -> asyncio.TimerHandle:
        """Call a function later, and never so soon that the clock would not move."""
        return super().call_later(at_least_a_tick(delay), *args, **keywords)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call a function at a time, after all that were to be called then already."""
        timer = asyncio.TimerHandle(rounded(when), callback, args, self, context)
        heapq.heappush(self._timers, (timer.when(), next(self._numbers), timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Forget cancelled timers when they are more than the others."""
        self._cancelled += 1
        if self._cancelled > 100 and 2 * self._cancelled > len(self._timers):
            self._timers = [each for each in self._timers if not each[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def time(self) -> float:
        """Return the virtual time."""
        return self.now

    def next_timer(self) -> float | None:
        """Return when the next timer is due."""
        while self._timers and self._timers[0][2].cancelled():
            self._next()
        return self._timers[0][0] if self._timers else None

    def has_due(self) -> bool:
        """Whether a timer is due."""
        return bool(self._timers) and self._timers[0][0] < self.now + RESOLUTION_S

    def ripen(self) -> None:
        """Let the timers that are due be called in the round of the loop that begins now."""
        while self.has_due():
            self._ready.append(self._next())  # type: ignore[attr-defined]

    def _next(self) -> asyncio.TimerHandle:
        timer: Any = heapq.heappop(self._timers)[2]
        timer._scheduled = False
        self._cancelled -= timer.cancelled()
        return timer  # type: ignore[no-any-return]

    def awaited(self) -> Iterator[Any]:
        """Yield the functions that timers will call."""
        timers: Iterator[Any] = (each[2] for each in self._timers)
        return (each._callback for each in timers if not each.cancelled())

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function at once: a thread would take real time while the clock moves."""
        return asyncio.wrap_future(AtOnce().submit(func, *args), loop=self)

    def give_clock(self) -> None:
        """Let Tornado's timers follow this loop's clock; to be called while it runs."""
        IOLoop.current().time = self.time  # type: ignore[method-assign]

    def move(self) -> None:
        """Set the clock to what comes next: a timer of this process, or of the test's process."""
        if fault := self.find_error() or self.find_fault(self._is_patient):
            self._fault, self.owes = fault, True
            return
        target = self.next_timer()
        if self.deadline is not None and (target is None or self.deadline <= target):
            self.now, self.owes = max(self.now, self.deadline), True
        elif target is not None:
            self.now = max(self.now, target)
        else:
            self.owes = True  # it may never end, but that is for the test to say

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
        if self.turns.connection in woken:  # else it was a signal, or the parent has ended
            self.is_away = False
            self._take(self.turns.take())

    def _take(self, answer: dict[str, Any] | None) -> None:
        fault, self._fault = self._fault, None
        if answer is None:
            self.stop()
        elif fault is not None and not answer["heard"]:
            # The end of this process is heard by any test; its log ends with the reason.
            sys.stderr.write(f"{fault.text}\n")
            raise StuckError(fault.text.partition("\n")[0])
        else:
            self.deadline, self._is_patient = answer["deadline"], answer["patient"]
            # A message that is larger than the buffers arrives in parts; and on a busy machine one
            # may arrive after the turn that was given after it, and so was not read in that turn.
            is_sending = self._is_sending or not have_arrived(self._waiting.get_map())
            self.owes |= answer["unsent"] or is_sending


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._moves = 0
        self._passes = 0
        """How often the loop went round since nothing was left to do."""
        self._is_drained = False
        """Whether everything has been read that the test's process sent in its last turn."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what can be read or written; move the clock if nothing can."""
        # If callbacks are ready, messages are read when none is left.
        is_busy = (timeout is not None and timeout <= 0) or self._loop.has_due()
        self._watch(is_busy)
        events = [] if is_busy else self._look()
        self._loop.ripen()
        return events

    def _watch(self, is_busy: bool) -> None:
        """End the process if it goes round and round at one time."""
        self._passes = self._passes + 1 if is_busy else 0
        if self._passes > MOST_PASSES and self._loop.turns is not None:
            raise StuckError(tell_standstill(names_at_work(asyncio.all_tasks(self._loop))))

    def _look(self) -> list[Any]:
        loop = self._loop
        if not loop.is_away and (events := self._arrived()):
            return events
        if loop.turns is None:
            return self._pass_freely()
        if loop.owes or loop.is_away:
            with loop.aside:
                loop.hand_over()
            self._is_drained = False
            # Still away, it was woken by a signal, which stays unread otherwise and wakes it again.
            return super().select(0) if loop.is_away else []
        loop.move()
        return []

    def _arrived(self) -> list[Any]:
        """Return what can be read or written.

        After a turn of the test's process nothing more comes from there until its next one. Signals
        and the parent's end can wait for a few moves of the clock.
        """
        self._moves += 1
        if self._is_drained and self._moves % MOVES:
            return []
        events = super().select(0)
        self._is_drained = not events and self._loop.turns is not None
        return events

    def _pass_freely(self) -> list[Any]:
        if (target := self._loop.next_timer()) is None:
            return super().select(None)
        self._loop.now = max(self._loop.now, target)
        return []
