"""Threads that take turns: one runs at a time, and the clock moves when all of them wait.

A thread gives its turn away only where it would wait: for a lock that another one holds, for an
event of its loop, for the end of a thread, or for a time. So the order of all that happens in a
test depends on nothing but the test. `threads.py` has the locks, threads and clocks that call this.
"""

from __future__ import annotations

import sys
import threading
import traceback
from _thread import allocate_lock, get_ident
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from heapq import heappop, heappush
from itertools import count, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from pytest_schedprof.errors import StuckError

if TYPE_CHECKING:
    from pytest_schedprof.virtual.weather import Weather

NS = 1_000_000_000
"""Nanoseconds of a second. The clock is a whole number of them, so that sums are exact."""

LONGEST = 30 * 24 * 3600 * NS
"""A test whose clock has moved so far waits for what never comes, and looks again and again."""

OUTSIDE_S = 1.0
"""Seconds of real time to wait for a thread that takes no turns, when all others wait."""

READING_NS = 1_000
"""How long a reading of the clock takes: two of them differ."""

READINGS = 1000
"""Readings in one turn from which on each takes longer, for who waits by looking at the clock."""

IMPATIENT_NS = 1_000_000

DEEPEST = 8
"""Calls of each thread that a standstill is told with."""


class RefusalError(BaseException):
    """What a test does cannot be in virtual time. No `except Exception` of the test's takes it."""


class Event(NamedTuple):
    """Something that happened in a test."""

    at: int
    thread: str
    text: str

    def __str__(self) -> str:
        return f"at {self.at / NS:.9f} s, {self.thread and f'{self.thread}: '}{self.text}"


SHOWN = 5
"""Equal events that are shown before the first that differs."""


def difference(first: list[Event], second: list[Event]) -> str:
    """Return in words where two runs of a test part; empty if they are equal."""
    if first == second:
        return ""
    place = next(n for n, (a, b) in enumerate(zip_longest(first, second)) if a != b)
    parting = [str(run[place]) if place < len(run) else "nothing" for run in (first, second)]
    return "\n".join(
        [
            f"schedprof: two runs of the test differ from event {place + 1} on:",
            *(f"  both:   {event}" for event in first[max(place - SHOWN, 0) : place]),
            f"  first:  {parting[0]}",
            f"  second: {parting[1]}",
        ]
    )


class State(Enum):
    """What a runner does."""

    READY = auto()
    RUNNING = auto()
    WAITING = auto()
    DONE = auto()


class Runner:
    """A thread that takes turns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gate = allocate_lock()
        """It is held while another one runs."""
        self.gate.acquire()
        self.state = State.READY
        self.waits = 0
        """How often it has waited, by which a time-out knows whether it came too late."""
        self.is_woken = False
        """Whether its last wait ended before its time-out."""
        self.is_free = False
        """Whether the relay has ended before it: it runs as any thread."""
        self.error: BaseException | None = None
        """Which its wait raises."""
        self.joiners: list[Runner] = []
        self.ident = 0


class Relay:
    """The turns, the clock and the agenda of one test."""

    def __init__(self) -> None:
        self.now = 0
        """Nanoseconds since the test began."""
        self.names: Counter[str] = Counter()
        """How many names that are unique elsewhere each place in the code has got."""
        self.hashes = count(1)
        """Gives what is kept in sets a hash other than its address."""
        self.journal: list[Event] | None = None
        """All that happens, if anybody will read it."""
        self.weather: Weather | None = None
        """What is drawn, if anything is."""
        self.is_over = False
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._runners: dict[int, Runner] = {}
        self._begun: list[Runner] = []
        self._ready: deque[Runner] = deque()
        self._rung: deque[Runner] = deque()
        """Runners that a thread without turns has woken."""
        self._bell = allocate_lock()
        self._bell.acquire()
        self._readings = 0
        self.turns = 0
        """How many have begun."""
        self._first = self.enter(threading.current_thread().name)
        self.run(self._first)
        self._first.state = State.RUNNING
        self.running = self._first
        self._ready.clear()

    def current(self) -> Runner | None:
        """Return the runner of this thread; None for a thread that takes no turns."""
        return self._runners.get(get_ident())

    def reading(self) -> int:
        """Return the time, for somebody who looks at a clock."""
        self._readings += 1
        self.now += READING_NS if self._readings < READINGS else IMPATIENT_NS
        return self.now

    def note(self, text: str) -> None:
        """Write down what happens."""
        if self.journal is not None:
            runner = self.current()
            self.journal.append(Event(self.now, runner.name if runner else "", text))

    def at(self, moment: int, action: Callable[[], None]) -> None:
        """Let something happen at a time, after what was to happen at that time before."""
        heappush(self._agenda, (moment, next(self._numbers), action))

    def enter(self, name: str) -> Runner:
        """Return a new runner, whose turn comes after those of all that can run now."""
        runner = Runner(name)
        self._begun.append(runner)
        self._ready.append(runner)
        return runner

    def forget(self, runner: Runner) -> None:
        """Give a new runner no turn: there is no thread that would take it."""
        self._begun.remove(runner)
        self._ready.remove(runner)

    def run(self, runner: Runner) -> None:
        """Let this thread be a runner; it has the turn."""
        runner.ident = get_ident()
        self._runners[runner.ident] = runner

    def leave(self, runner: Runner) -> None:
        """End a runner, whose thread is about to end."""
        if self.is_over:
            return
        for joiner in runner.joiners:
            self.wake(joiner)
        runner.state = State.DONE
        del self._runners[runner.ident]
        self._give_to(self._next())

    def wait(self, until: int | None = None) -> bool:
        """Let others run until this one is woken, or until a time; return whether it was woken."""
        runner = self._runners[get_ident()]
        runner.state, runner.is_woken = State.WAITING, False
        runner.waits += 1
        if until is not None:
            self.at(max(until, self.now), partial(self._end_wait, runner, runner.waits))
        self._pass_on(runner)
        if (error := runner.error) is not None:
            runner.error = None
            raise error
        return runner.is_woken

    def _end_wait(self, runner: Runner, waits: int) -> None:
        if runner.state is State.WAITING and runner.waits == waits:
            self._make_ready(runner, is_woken=False)

    def give_way(self) -> None:
        """Let all that can run have a turn before this one."""
        runner = self._runners[get_ident()]
        self._make_ready(runner, is_woken=False)
        self._pass_on(runner)

    def wake(self, runner: Runner) -> None:
        """End the wait of a runner, from whichever thread."""
        if get_ident() in self._runners:
            if runner.state is State.WAITING:
                self._make_ready(runner, is_woken=True)
            return
        self._rung.append(runner)
        if self._bell.locked():
            self._bell.release()

    def _make_ready(self, runner: Runner, *, is_woken: bool) -> None:
        runner.state, runner.is_woken = State.READY, is_woken
        self._ready.append(runner)

    def _pass_on(self, runner: Runner) -> None:
        chosen = self._next()
        if chosen is runner:
            runner.state = State.RUNNING
            self.turns += 1
            return
        self._give_to(chosen)
        runner.gate.acquire()

    def _give_to(self, chosen: Runner) -> None:
        chosen.state = State.RUNNING
        self.running = chosen
        self.turns += 1
        self._readings = 0
        chosen.gate.release()

    def _next(self) -> Runner:
        """Return the runner whose turn it is; move the clock if none can run now."""
        while True:
            while self._rung:
                runner = self._rung.popleft()
                if runner.state is State.WAITING:
                    self._make_ready(runner, is_woken=True)
            while self._agenda and self._agenda[0][0] <= self.now:
                heappop(self._agenda)[2]()
            if self._ready:
                weather = self.weather
                return weather.next_of(self._ready, self.now) if weather else self._ready.popleft()
            if self._agenda and self._agenda[0][0] < LONGEST:
                self.now = self._agenda[0][0]
            elif not self._bell.acquire(True, OUTSIDE_S):
                self._tell_standstill()

    def fail(self, error: BaseException) -> None:
        """Let the wait of the test's own thread raise an error, unless it is the one that runs."""
        first = self._first
        if first.state is not State.RUNNING:
            first.error = error
        if first.state is State.WAITING:
            self._make_ready(first, is_woken=False)

    def take_turn(self) -> bool:
        """Give the turn of a thread that is blocked to the test's own; False if it has it."""
        first = self._first
        if first is self.running:
            return False
        if first in self._ready:
            self._ready.remove(first)
        self._give_to(first)
        return True

    def _tell_standstill(self) -> None:
        """Raise an error in the test's own thread, which waits as all others do."""
        waits = "time passes, and nothing comes of it" if self._agenda else "nothing is to come"
        text = f"schedprof: all threads of the test wait, and {waits}:\n{self.describe()}"
        self._agenda.clear()
        self.fail(StuckError(text))

    def describe(self) -> str:
        """Return what each runner does, with its innermost calls."""
        frames = sys._current_frames()
        texts = []
        for runner in self._begun:
            if runner.state is not State.DONE and runner.ident in frames:
                calls = traceback.format_stack(frames[runner.ident])[-DEEPEST:]
                texts.append(f"{runner.name} ({runner.state.name.lower()}):\n{''.join(calls)}")
        return "\n".join(texts)

    def end(self) -> None:
        """Let the threads that are left run as any other."""
        self.is_over = True
        self._runners.clear()
        for runner in self._begun:
            if runner is not self._first and runner.state is not State.DONE:
                runner.is_free = True
                runner.gate.release()
