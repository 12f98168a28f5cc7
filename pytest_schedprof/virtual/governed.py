"""An event loop of the test's process that runs clients of a virtual cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.virtual.loop import RESOLUTION_S, at_least_a_tick

if TYPE_CHECKING:
    from pytest_schedprof.virtual.conductor import Conductor

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

    @property
    def sockets(self) -> Any:
        """The descriptors for which it waits."""
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
        wakes the loop.
        """

        def job() -> Any:
            with self._conductor.at_work(self):
                return function(*args)

        self._conductor.begin_job()
        running = self._real_run(executor, job)
        running.add_done_callback(lambda _: self._conductor.note_result(self))
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
