"""An event loop of the test's process that runs clients of a virtual cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.virtual.loop import RESOLUTION_S, at_least_a_tick

SPINS = 1000
"""How often a loop goes round at one time until it is said to wait: `await asyncio.sleep(0)`, again
and again, asks whether something has come meanwhile."""

SPINS_MORE = 10
"""How often it then goes round until it is said to wait again."""

POLL_S = 0.001
"""Virtual time that goes by meanwhile."""


class Governor(Protocol):
    """Says when a loop may run, and what time it is."""

    now: float
    is_gone: bool

    def wake(self, loop: GovernedLoop) -> None:
        """Note that a loop may have something to do."""

    def rest(self, loop: GovernedLoop) -> None:
        """Wait until the loop may run again."""

    def begin_job(self) -> None:
        """Note that a thread works for a loop."""

    def at_work(self, loop: GovernedLoop) -> AbstractContextManager[None]:
        """Do the work; then the loop is about to hear of its end."""

    def hear(self, loop: GovernedLoop) -> None:
        """Note that a loop has heard of the end of such a job."""

    def release(self, loop: GovernedLoop) -> None:
        """Forget a loop that runs no client any more."""


class GovernedLoop:
    """Gives a loop the virtual clock, and lets it rest instead of waiting for the network."""

    def __init__(self, loop: Any, governor: Governor) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.clients: list[Any] = []
        self.is_woken = True
        """Whether it may have something to do."""
        self.unheard = 0
        """Number of jobs in threads that ended, and whose end the loop does not know."""
        self._rounds = 0
        """How often the loop went round since nothing was left to do."""
        self._governor = governor
        self._selector = loop._selector
        self._select, self._real_time = self._selector.select, loop.time
        self._real_run = loop.run_in_executor
        self._undo = ExitStack()
        self._take_over(loop)

    @property
    def is_governed(self) -> bool:
        """Whether it runs a client of a cluster that lives; one that closed needs no turns."""
        if self._governor.is_gone or not self.loop.is_running():
            return False
        return any(each.status != "closed" for each in self.clients)

    @property
    def deadline(self) -> float | None:
        """When its next timer is due."""
        scheduled = self.loop._scheduled
        return scheduled[0].when() if scheduled else None

    @property
    def sockets(self) -> Any:
        """Descriptors that it waits for."""
        return self._selector.get_map()

    def _take_over(self, loop: Any) -> None:
        self._shift_timers(self._governor.now - self._real_time())
        replace(loop, "_clock_resolution", RESOLUTION_S, self._undo)
        later, write = loop.call_later, loop._write_to_self

        def call_later(delay: float, *args: Any, **keywords: Any) -> Any:
            return later(at_least_a_tick(delay), *args, **keywords)

        def woken() -> None:
            self._governor.wake(self)
            write()

        replace(loop, "time", self._now, self._undo)
        replace(loop, "call_later", call_later, self._undo)
        replace(loop, "run_in_executor", self._run, self._undo)
        replace(loop, "_write_to_self", woken, self._undo)
        replace(self._selector, "select", self._selected, self._undo)

    def lend_clock(self, owner: Any) -> None:
        """Let Tornado's loop follow the virtual clock too; its timers ask it for the time."""
        if vars(owner).get("time") != self._now:
            replace(owner, "time", self._now, self._undo)

    def _now(self) -> float:
        return self._governor.now

    def _run(self, executor: Any, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function in a thread; the clock stands still until the loop knows its result.

        The thread may be interrupted between the end of the function and the moment at which it
        wakes the loop.
        """

        def job() -> Any:
            with self._governor.at_work(self):
                return function(*args)

        self._governor.begin_job()
        running = self._real_run(executor, job)
        running.add_done_callback(lambda _: self._governor.hear(self))
        return running

    def _selected(self, timeout: float | None = None) -> Any:
        """Do as `select`; messages are read when nothing else is left to do."""
        if timeout is not None and timeout <= 0:
            if not self._is_spinning():
                return []
            self.loop.call_later(POLL_S, _nothing)
        else:
            self._rounds = 0
        if events := self._select(0):
            return events
        if self.is_governed:
            self._governor.rest(self)
        else:
            self.let_go()
        return self._select(0)

    def _is_spinning(self) -> bool:
        """Whether something goes round and round in the loop, and should wait for a moment."""
        self._rounds += 1
        is_spinning = self.is_governed and self._rounds > SPINS
        if is_spinning:
            self._rounds -= SPINS_MORE
        return is_spinning

    def let_go(self) -> None:
        """Give the loop its own clock back."""
        self._governor.release(self)
        self._undo.close()
        self._shift_timers(self._real_time() - self._governor.now)

    def _shift_timers(self, seconds: float) -> None:
        """Keep the distance of timers when the loop gets another clock."""
        for handle in self.loop._scheduled:
            handle._when += seconds


def _nothing() -> None:
    """Be due."""
