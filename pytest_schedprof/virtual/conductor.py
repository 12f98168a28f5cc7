"""Lets the clients of the test's process run only while the test waits for them.

If the test waits and none of its clients' event loops has anything to do, the turn goes to the
cluster. It comes back with the time that it is then.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_schedprof.errors import StuckError
from pytest_schedprof.virtual.blocked import (
    Jobs,
    Waiter,
    interrupt,
    tells_itself,
    watch_this_thread,
)
from pytest_schedprof.virtual.governed import GovernedLoop
from pytest_schedprof.virtual.loop import EPOCH
from pytest_schedprof.virtual.stories import Fault
from pytest_schedprof.virtual.turns import RandomNames, Turns, acknowledge, have_arrived

CHECK_S = 0.05
"""Interval in which loops that have ended are noticed."""

RECONNECTING_S = 1.0
"""How long clients look for a cluster that has ended: nobody starts another one there."""

MOST_REQUESTS = 50
"""How many requests of the test are answered at one time, until it is said to wait."""

REAL_WAIT = threading.Condition.wait


def _nobody_waits() -> bool:
    return False


class Conductor:
    """The turns of one virtual cluster in this process."""

    _requests = 0, EPOCH
    """Number of requests since the clock moved, and when that was."""

    is_syncing = False
    """Whether the test waits for a coroutine of a client, whose time-outs are virtual."""

    is_patient = False
    """Whether it waits for that without a time-out."""

    is_gone = False
    """Whether the cluster has ended."""

    patience_s = threading.TIMEOUT_MAX
    """Real time in which the turn must come back after an interrupt broke off the wait for it."""

    def __init__(
        self, turns: Turns, seed: int, give_up: Callable[[str], None] = lambda why: None
    ) -> None:
        """Take the first turn.

        Args:
            turns: the connection to the cluster.
            seed: of the names that are drawn.
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
        self._waits: Callable[[], bool] = _nobody_waits
        self._expiry: float | None = None
        """When the test waits no longer."""
        self._wake_test: Callable[[], None] | None = None
        """Ends the waiting of a test that waits outside of an event loop."""
        self._watch = watch_this_thread(tells_itself)
        """Finds the test's thread blocked in a lock, of which nobody tells."""
        self._is_blocked: Callable[[], bool] = _nobody_waits
        self._jobs = Jobs()
        self._is_expecting = False
        """Whether the test waits for a client that is about to connect, on a loop of its own."""
        self._fault: Fault | None = None
        """Why the test must not go on, if so."""
        self._give_up = give_up
        self._overdue: threading.Timer | None = None
        """Gives up the cluster if the turn does not come back."""
        threading.Thread(target=self._receive, name="schedprof-turns", daemon=True).start()

    def _receive(self) -> None:
        """Take turns until the cluster has ended."""
        while (turn := self._turns.take()) is not None:
            with self.changed:
                self.now, self._is_here = turn["now"], True
                self._end_overdue()
                self._fault = Fault(*turn["fault"]) if turn["fault"] else None
                for each in self._loops:
                    each.is_woken = True
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

    def _look_for_turn(self) -> None:
        """Wait not for ever if the turn is away where the test's thread can only begin to wait.

        An interrupt or a test's timeout broke off the wait before, and what the cluster does may
        never end. Time-outs of clients would not help, because they are virtual.
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
        """Make the names of a round, whatever was named before it."""
        self._names = RandomNames(f"{self._seed}:names of round {number}")

    def make_name(self, function: str, line: int) -> uuid.UUID:
        """Return a name for a place in the code: unique in this cluster, the same in each run.

        The names of tasks order the scheduler's sets of them.
        """
        return self._names.draw(function, line)

    def governs(self, thread: int) -> bool:
        """Whether a thread is the test's, or runs one of the loops."""
        if self.is_gone:
            return False
        return thread == self.body or any(
            each.thread == thread and each.is_governed for each in self._loops
        )

    def has(self, loop: Any) -> bool:
        """Whether a loop is governed here."""
        return any(each.loop is loop for each in self._loops)

    # What the event loops say.

    def adopt(self, client: Any) -> None:
        """Govern the running loop of a client."""
        loop: Any = asyncio.get_running_loop()
        with self.changed:
            governed = next((each for each in self._loops if each.loop is loop), None)
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
        """Give loops their clocks back that stand now: others do so by themselves."""
        for each in [each for each in self._loops if not each.loop.is_running()]:
            each.let_go()

    def begin_job(self) -> None:
        """Note that a thread works for a loop; the clock stands still until it is done."""
        with self.changed:
            self._jobs.number += 1

    def end_job(self, loop: GovernedLoop | None = None) -> None:
        """Note that it is done, or waits for a coroutine of a client."""
        with self.changed:
            self._jobs.number -= 1
            if loop is not None:
                loop.unheard += 1
            self.changed.notify_all()

    def hear(self, loop: GovernedLoop) -> None:
        """Note that a loop has heard of the end of a job."""
        with self.changed:
            loop.unheard -= 1

    @contextmanager
    def at_work(self, loop: GovernedLoop) -> Iterator[None]:
        """Do a job in this thread; the clock moves if it is blocked in a lock."""
        try:
            with self._jobs.at_work():
                yield
        finally:
            self.end_job(loop)

    @contextmanager
    def job_waiting(self) -> Iterator[None]:
        """Let the clock move while a thread that works for a loop waits for a client."""
        with self._jobs.waiting():
            self.end_job()
            try:
                yield
            finally:
                self.begin_job()

    def wake(self, loop: GovernedLoop) -> None:
        """Note that a loop may have something to do."""
        with self.changed:
            loop.is_woken = True
            self.changed.notify_all()

    def rest(self, loop: GovernedLoop) -> None:
        """Wait until the loop has something to do and the test waits."""
        is_tests = threading.get_ident() == self.body
        if is_tests:
            self._look_for_turn()
        with self.changed:
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
                self._waits = _nobody_waits

    def _look_at_test(self) -> None:
        """Say that the test waits for the cluster if its thread is blocked in a lock."""
        is_busy = not self._is_here or self._is_expecting or self._jobs.are_busy()
        if is_busy or self._waits() or any(each is self._working() for each in self._others()):
            return
        if (found := self._watch.find()) is not None:
            self._is_blocked = self._waits = found
            self._wake_test, self._expiry = interrupt(self.body), None

    def _others(self) -> list[GovernedLoop]:
        """Return the governed loops that do not run in the test's thread."""
        return [each for each in self._loops if each.is_governed and each.thread != self.body]

    def _may_run(self, loop: GovernedLoop) -> bool:
        """Whether it is the first of those that have something to do."""
        if not (self._is_here and self._waits() and loop.is_woken):
            return False
        first = next((each for each in self._governed() if each.is_woken), loop)
        return self._working() is None and (first is loop or not loop.is_governed)

    def _governed(self) -> list[GovernedLoop]:
        """Return the governed loops, but for one that the test's thread blocks."""
        if self._is_blocked():
            return self._others()
        return [each for each in self._loops if each.is_governed]

    def _working(self) -> GovernedLoop | None:
        """Return the loop that runs, if any."""
        if self._active is not None and not self._active.is_governed:
            self._active = None
        if self._active is not None and self._active.thread == self.body and self._is_blocked():
            return None
        return self._active

    def _pass_turn(self) -> None:
        """Give the turn to the cluster if everybody waits."""
        loops = self._governed()
        if not (self._is_here and self._waits()) or self._working() is not None:
            return
        if self._is_expecting or self._jobs.are_busy():
            return
        if any(each.is_woken or each.unheard > 0 for each in loops):
            return
        is_late = self._expiry is not None and self._expiry <= self.now
        if self._wake_test is not None and (is_late or self._fault):
            return self._wake_test()
        self._is_here = False
        is_told, self._fault = self._fault is not None, None  # told to nobody
        for loop in loops:
            acknowledge(loop.sockets)
        dues = [*(each.deadline for each in loops), self._expiry]
        self._turns.give(
            deadline=min((each for each in dues if each is not None), default=None),
            unsent=not all(have_arrived(each.sockets) for each in loops),
            patient=self._wake_test is not None and self._expiry is None,
            heard=not is_told,
        )

    # What the test's thread says.

    @contextmanager
    def syncing(self, *, is_patient: bool) -> Iterator[None]:
        """Note that the test waits for a coroutine on one of the loops, perhaps for ever."""
        before = self.is_syncing, self.is_patient
        self.is_syncing, self.is_patient = True, is_patient
        try:
            yield
        finally:
            self.is_syncing, self.is_patient = before

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Keep the turn until a client that is being started has a loop, or gives up."""
        self._is_expecting = True
        try:
            yield
        finally:
            self._is_expecting = False

    def wait(self, waiter: Waiter, timeout: float | None, *, is_virtual: bool) -> bool:
        """Wait until somebody releases the lock, or the time is over; return whether it was.

        Raises:
            StuckError: if nothing can happen any more in the cluster.
        """
        is_woken: list[bool] = []
        self._look_for_turn()

        def wake() -> None:
            is_woken.append(True)
            waiter.release()

        with self.changed:
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
        """Tell the test's thread, which a signal has woken, why it must not wait any longer.

        Raises:
            StuckError: if that is the reason of the signal.
        """
        fault, self._fault = self._fault, None
        if fault is not None:
            raise StuckError(fault.text)
        if self.is_gone:
            raise StuckError("schedprof: the cluster has ended for whose tasks the test waits")

    def _end_waiting(self) -> None:
        """Return when no loop runs any more, so that the test meets each of them at rest."""
        with self.changed:
            self._waits, self._wake_test, self._expiry = _nobody_waits, None, None
            while self._working() is not None and not self.is_gone:
                REAL_WAIT(self.changed, CHECK_S)

    def is_asked_too_often(self) -> bool:
        """Whether the test asks again and again at one time, which must go by some day."""
        number, then = self._requests
        number = number + 1 if then == self.now else 1
        self._requests = number, self.now
        return number > MOST_REQUESTS

    def sleep(self, seconds: float) -> None:
        """Let that much virtual time go by."""
        self.wait(Waiter(), seconds, is_virtual=True)
