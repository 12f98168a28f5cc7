"""Lets the clients of the test's process run only while the test waits for them.

If the test waits and the event loops of its clients have nothing to do, the conductor gives the
turn to the cluster. The cluster gives it back, with its new time.
"""

from __future__ import annotations

import asyncio
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_schedprof.errors import StuckError
from pytest_schedprof.virtual.blocked import Job, Jobs, Place, Waiter, Watch, interrupt
from pytest_schedprof.virtual.loop import EPOCH, GovernedLoop, Turns, acknowledge, have_arrived
from pytest_schedprof.virtual.stories import Fault

CHECK_S = 0.05
"""Interval in which loops that have ended are noticed."""

RECONNECTING_S = 1.0
"""How long clients try to reconnect to a cluster that has ended: none is started there again."""

MOST_REQUESTS = 50
"""Requests that the test may make at one virtual time. With more it polls, and time must pass."""

LAST_TURN_S = 5.0
"""Longest time in seconds that the end of a cluster takes to be noticed."""

REAL_WAIT = threading.Condition.wait


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


def _no() -> bool:
    return False


class Conductor:
    """Takes the turns of one virtual cluster in this process."""

    _requests = 0, EPOCH
    """Number of requests since the clock moved, and the time to which it moved."""

    is_syncing = False
    """Whether the test waits for a coroutine of a client, whose time-outs are virtual."""

    is_patient = False
    """Whether that wait has no time-out."""

    is_gone = False
    """Whether the cluster has ended."""

    patience_s = threading.TIMEOUT_MAX
    """Real time within which the turn must come back after an interrupt ended the wait for it."""

    def __init__(
        self, turns: Turns, seed: int, give_up: Callable[[str], None] = lambda why: None
    ) -> None:
        """Take the first turn.

        Args:
            turns: the connection to the cluster.
            seed: of random names.
            give_up: ends the cluster's process, for a reason.
        """
        self.now = EPOCH
        self.body = threading.get_ident()
        """The thread that runs tests."""
        self.changed = threading.Condition()
        self._turns = turns
        self._seed = seed
        self.renew_names(0)
        self._loops: list[GovernedLoop] = []
        self._is_here = True
        """Whether this process has the turn."""
        self._active: GovernedLoop | None = None
        self._waits: Callable[[], bool] = _no
        """Whether the test waits."""
        self._expiry: float | None = None
        """When the wait of the test times out."""
        self._wake_test: Callable[[], None] | None = None
        """Ends the wait of a test that waits outside of an event loop."""
        self._watch = Watch(Place.announces_itself)
        """Finds the test's thread blocked in a lock that does not announce it."""
        self._is_blocked: Callable[[], bool] = _no
        self._jobs = Jobs()
        self._is_expecting = False
        """Whether the test waits for a client that is about to connect, on a loop of its own."""
        self._fault: Fault | None = None
        """Why the test must end, if it must."""
        self._give_up = give_up
        self._overdue: threading.Timer | None = None
        """Ends the cluster if the turn does not come back."""
        self._receiver = threading.Thread(target=self._receive, name="schedprof-turns", daemon=True)
        self._receiver.start()

    def _receive(self) -> None:
        """Take turns until the cluster has ended."""
        while (turn := self._turns.take()) is not None:
            with self.changed:
                self.now, self._is_here = turn["now"], True
                self._end_overdue()
                self._fault = Fault(*turn["fault"]) if turn["fault"] else None
                for loop in self._loops:
                    loop.is_woken = True
                self.changed.notify_all()
        with self.changed:
            self.is_gone = True
            self._end_overdue()
            self._turns.connection.close()
            for client in [client for loop in self._loops for client in loop.clients]:
                client._timeout = RECONNECTING_S
            self.changed.notify_all()
            if self._wake_test is not None and self._waits():
                self._wake_test()

    def _start_timer_if_away(self) -> None:
        """Limit the real time of a wait that begins while the cluster has the turn.

        Then an interrupt or a test's timeout has ended an earlier wait, and the cluster may never
        give the turn back. Time-outs of clients do not help, because they are virtual.
        """
        with self.changed:
            if self._is_here or self.is_gone or self._overdue is not None:
                return
            why = f"did not let an interrupted test go on for {self.patience_s:g} s of real time"
            self._overdue = threading.Timer(self.patience_s, self._give_up, (why,))
            self._overdue.daemon = True
        self._overdue.start()

    def _end_overdue(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def renew_names(self, number: int) -> None:
        """Make the random names of a round independent of those before it."""
        self._names = RandomNames(f"{self._seed}:names of round {number}")

    def make_name(self, function: str, line: int) -> uuid.UUID:
        """Return a name for a line of code: unique in this cluster, and the same in each run.

        The names of tasks order the scheduler's sets of them.
        """
        return self._names.draw(function, line)

    def governs(self, thread: int) -> bool:
        """Whether a thread is the test's, or runs one of the loops."""
        if self.is_gone:
            return False
        return thread == self.body or any(
            loop.thread == thread and loop.is_governed for loop in self._loops
        )

    def has(self, loop: Any) -> bool:
        return any(governed.loop is loop for governed in self._loops)

    # Event loops and their threads call these.

    def adopt(self, client: Any) -> None:
        """Govern the running loop of a client."""
        loop: Any = asyncio.get_running_loop()
        with self.changed:
            governed = next((known for known in self._loops if known.loop is loop), None)
            if governed is None:
                governed = self._active = GovernedLoop(loop, self)
                self._loops.append(governed)
            if client not in governed.clients:
                governed.clients.append(client)
            self._is_expecting = False
        governed.lend_clock(client.loop)

    def release(self, loop: GovernedLoop) -> None:
        """Forget a loop that runs no client any more."""
        with self.changed:
            self._loops.remove(loop)

    def let_go(self) -> None:
        """Give loops that stand their clocks back; running loops take them back themselves.

        The process of the cluster has ended, so the thread that takes turns from it ends too.
        """
        for loop in [loop for loop in self._loops if not loop.loop.is_running()]:
            loop.let_go()
        self._receiver.join(LAST_TURN_S)

    def begin_job(self, pool: Any) -> Job:
        """Note that a thread is to work for a loop; the clock stands still until its job ends."""
        with self.changed:
            return self._jobs.add(pool)

    def note_result(self, job: Job, loop: GovernedLoop) -> None:
        """Note that a loop knows of the end of a job, which no thread may have begun."""
        with self.changed:
            if job.watch is None:
                self._jobs.remove(job)
            else:
                loop.results_under_way -= 1

    @contextmanager
    def at_work(self, job: Job, loop: GovernedLoop) -> Iterator[None]:
        """Do a job in this thread; the clock may move while the thread is blocked in a lock."""
        watch = Watch()
        with self.changed:
            is_awaited = self._jobs.begin(job, watch)
        try:
            yield
        finally:
            with self.changed:
                if is_awaited:
                    self._jobs.remove(job)
                    loop.results_under_way += 1
                self.changed.notify_all()

    @contextmanager
    def job_waiting(self) -> Iterator[None]:
        """Let the clock move while a thread waits for a client, also if it works for a loop."""
        job = self._jobs.current()
        if job is None or job.is_waiting:
            yield
            return
        with self.changed:
            job.is_waiting = True
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                job.is_waiting = False

    def wake(self, loop: GovernedLoop) -> None:
        """Note that a loop may have something to do."""
        with self.changed:
            loop.is_woken = True
            self.changed.notify_all()

    def rest(self, loop: GovernedLoop) -> None:
        """Wait until the loop has something to do and the test waits."""
        is_tests = threading.get_ident() == self.body
        if is_tests:
            self._start_timer_if_away()
        with self.changed:
            if is_tests and self._fault is not None and self._is_for_ever():
                fault, self._fault = self._fault, None
                raise StuckError(fault.text)
            if loop.deadline is not None and loop.deadline <= self.now:
                return
            if self._active is loop:
                self._active = None
            if is_tests:
                self._waits, self._wake_test = lambda: True, None
            self.changed.notify_all()
            while not self._may_run(loop) and not self.is_gone:
                self._look_at_test()
                self._pass_turn()
                REAL_WAIT(self.changed, CHECK_S)
            loop.is_woken, self._active = False, loop
            if is_tests:
                self._waits = _no

    def _look_at_test(self) -> None:
        """Take the test as waiting for the cluster if its thread is blocked in a lock."""
        is_busy = not self._is_here or self._is_expecting or self._jobs.are_busy()
        if is_busy or self._waits() or any(loop is self._working() for loop in self._others()):
            return
        if (is_blocked := self._watch.find()) is not None:
            self._is_blocked = self._waits = is_blocked
            self._wake_test, self._expiry = interrupt(self.body), None

    def _others(self) -> list[GovernedLoop]:
        """Return the governed loops that do not run in the test's thread."""
        return [loop for loop in self._loops if loop.is_governed and loop.thread != self.body]

    def _may_run(self, loop: GovernedLoop) -> bool:
        """Whether a loop is the first of those that have something to do."""
        if not (self._is_here and self._waits() and loop.is_woken):
            return False
        first = next((other for other in self._governed() if other.is_woken), loop)
        return self._working() is None and (first is loop or not loop.is_governed)

    def _governed(self) -> list[GovernedLoop]:
        """Return the governed loops, without one that the test's thread blocks."""
        if self._is_blocked():
            return self._others()
        return [loop for loop in self._loops if loop.is_governed]

    def _working(self) -> GovernedLoop | None:
        if self._active is not None and not self._active.is_governed:
            self._active = None
        if self._active is not None and self._active.thread == self.body and self._is_blocked():
            return None
        return self._active

    def _pass_turn(self) -> None:
        """Give the turn to the cluster if the test, all loops and all jobs wait."""
        loops = self._governed()
        if not (self._is_here and self._waits()) or self._working() is not None:
            return
        if self._is_expecting or self._jobs.are_busy():
            return
        if any(loop.is_woken or loop.results_under_way > 0 for loop in loops):
            return
        is_late = self._expiry is not None and self._expiry <= self.now
        if self._wake_test is not None and (is_late or self._fault):
            return self._wake_test()
        self._is_here = False
        is_fault_known, self._fault = self._fault is None, None
        for loop in loops:
            acknowledge(loop.sockets)
        deadlines = [*(loop.deadline for loop in loops), self._expiry]
        with suppress(OSError):  # the cluster has ended, and the thread that takes turns notes it
            self._turns.give(
                deadline=min((time for time in deadlines if time is not None), default=None),
                unsent=not all(have_arrived(loop.sockets) for loop in loops),
                patient=self._is_for_ever(),
                heard=is_fault_known,
            )

    def _is_for_ever(self) -> bool:
        """Whether nothing in this process ends the wait of the test."""
        if self._wake_test is not None:
            return self._expiry is None
        is_in_loop = any(loop.thread == self.body for loop in self._loops)
        return is_in_loop and not any(loop.has_timers_of_test() for loop in self._loops)

    # The test's thread calls these.

    @contextmanager
    def syncing(self, *, is_patient: bool, is_expecting: bool = False) -> Iterator[None]:
        """Note that the test waits for a coroutine on one of the loops.

        Args:
            is_patient: whether it waits for ever.
            is_expecting: whether to keep the turn until a client that is being started has a loop.
        """
        before = self.is_syncing, self.is_patient
        self.is_syncing, self.is_patient = True, is_patient
        self._is_expecting |= is_expecting
        try:
            yield
        finally:
            self.is_syncing, self.is_patient = before
            self._is_expecting &= not is_expecting

    def wait(self, waiter: Waiter, timeout: float | None, *, is_virtual: bool) -> bool:
        """Wait until somebody releases the lock, or for a time; return whether it was released.

        Raises:
            StuckError: nothing can happen any more in the cluster.
        """
        is_woken: list[bool] = []
        self._start_timer_if_away()

        def wake() -> None:
            is_woken.append(True)
            waiter.release()

        with self.changed:
            if self.is_gone:  # since the caller looked: nobody else would wake the test
                wake()
            self._waits, self._wake_test = waiter.locked, wake
            if is_virtual and timeout is not None:
                self._expiry = self.now + timeout
            self._pass_turn()
            self.changed.notify_all()
        try:
            real_s = -1 if timeout is None or is_virtual else max(timeout, 0)
            is_released = waiter.acquire(real_s) and not is_woken
            if is_woken and self.is_gone and timeout is not None:
                is_released = waiter.acquire(timeout)  # its clients will notice
        finally:
            self._end_waiting()
        fault, self._fault = self._fault, None
        if fault is not None and (fault.is_final or not is_released):
            raise StuckError(fault.text)
        return is_released

    def end_blocking(self) -> None:
        """Raise in the test's thread, which a signal has woken, why it must end its wait.

        Raises:
            StuckError: nothing can happen any more, or the cluster has ended.
        """
        fault, self._fault = self._fault, None
        if fault is not None:
            raise StuckError(fault.text)
        if self.is_gone:
            raise StuckError("schedprof: the cluster has ended for whose tasks the test waits")

    def _end_waiting(self) -> None:
        """Return when no loop runs any more: the test must not run beside one."""
        with self.changed:
            self._waits, self._wake_test, self._expiry = _no, None, None
            while self._working() is not None and not self.is_gone:
                REAL_WAIT(self.changed, CHECK_S)

    def is_polling(self) -> bool:
        """Count a request of the test; return whether it polls although no virtual time passes."""
        count, moved_at = self._requests
        count = count + 1 if moved_at == self.now else 1
        self._requests = count, self.now
        return count > MOST_REQUESTS

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.wait(Waiter(), seconds, is_virtual=True)
