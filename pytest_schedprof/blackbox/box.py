"""The black box of a scheduler: keeps the ring, and notices when it must be written."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from contextlib import suppress
from functools import partial
from time import monotonic, time
from types import CodeType
from typing import Any

from pytest_schedprof.agent.names import name_places
from pytest_schedprof.agent.stalls import place_of
from pytest_schedprof.blackbox.asking import NAME
from pytest_schedprof.blackbox.counting import Counting
from pytest_schedprof.blackbox.listening import Listener
from pytest_schedprof.blackbox.metrics import Collector, publish, withdraw
from pytest_schedprof.blackbox.options import Options
from pytest_schedprof.blackbox.packed import Origin, Request
from pytest_schedprof.blackbox.packing import pack
from pytest_schedprof.blackbox.requests import Requests
from pytest_schedprof.blackbox.sampling import Sampler
from pytest_schedprof.blackbox.slices import SLICE_S, Ring, Slice, end_of
from pytest_schedprof.blackbox.starting import start_writer
from pytest_schedprof.model.ring import Event

logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`

BEAT_S = 0.1
"""The loop is late by at most what a callback of this period is late, give or take a period."""

FULL_S = 60.0
"""For so long a core must be full."""

HANGING = 10.0
"""A callback that takes so many times the bound is told before it ends: perhaps it never does."""

EXIT_S = 15.0
"""At exit the run must be written within this time."""


class BlackBox:
    """Runs beside a scheduler, in its process."""

    def __init__(self, scheduler: Any, options: Options) -> None:
        self.scheduler, self.options = scheduler, options
        self.loop = asyncio.get_running_loop()
        self.counting = Counting(scheduler)
        self.ring = Ring(options.window, self.counting.read())
        self.sampler = Sampler(self.ring, options.rate, self.stalled)
        self.listener = Listener(self.heard)
        self.requests = Requests()
        self.collector: Collector | None = None
        self.process = os.getpid()
        self.no_samples = ""
        self.written = 0
        """Runs so far."""
        self.is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._stalls: dict[float, tuple[float, CodeType | None]] = {}
        """Stalls since the last beat: one turn of the loop runs many callbacks before it."""
        self._error = ""
        """An error that was logged since the last beat."""
        self._is_full = self._is_told = False
        self._quiet_until = 0.0
        self._rotated = monotonic()

    def begin(self) -> None:
        """Keep the ring from now on."""
        self.no_samples = self.sampler.begin()
        self.counting.received.begin()
        self.listener.begin()
        self.scheduler.extensions[NAME] = self
        if self.options.prometheus:
            self.collector = publish(self)
        atexit.register(self.leave)
        self._wait()

    def end(self) -> None:
        """Leave the scheduler alone."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self.sampler.end()
        self.listener.end()
        self.counting.received.end()
        self.requests.end()
        withdraw(self.collector)
        atexit.unregister(self.leave)

    def give_up(self, error: Exception) -> None:
        """End after an error of our own."""
        logger.warning(
            "schedprof: the black box has ended: %s: %s; the scheduler runs on",
            type(error).__name__,
            error,
        )
        with suppress(Exception):
            self.end()

    async def close(self) -> None:
        """Write a last run, as the scheduler closes."""
        if not self.is_over:
            written = self.write(Request("exit", "the scheduler closed"))
            self.end()
            try:
                await asyncio.wait_for(asyncio.wrap_future(written), EXIT_S)
            except asyncio.TimeoutError:
                logger.warning("schedprof: the last run took longer than %g s to write", EXIT_S)

    def leave(self) -> None:
        """Write a last run as the process ends though the scheduler was not closed.

        Children that were forked inherit this, and have nothing to write.
        """
        if not self.is_over and os.getpid() == self.process:
            written = self.write(Request("exit", "the process ended"))
            self.end()
            with suppress(TimeoutError):
                written.result(EXIT_S)

    def _wait(self) -> None:
        self._due = self.loop.time() + BEAT_S
        self._timer = self.loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        try:
            self._look(max(0.0, self.loop.time() - self._due))
        except Exception as error:
            self.give_up(error)
        else:
            self._wait()

    def _look(self, lag: float) -> None:
        """Look for reasons to write, and end the slice under way if it is time."""
        current, stalls, error = self.ring.current, self._stalls, self._error
        current.lag = max(current.lag, lag)
        self._stalls, self._error, self._is_told = {}, "", False
        for stall, code in stalls.values():
            self.notice("stall", f"{named(code)} took {stall:.2f} s of CPU time at once")
        if not stalls and lag >= self.options.lag:
            self.notice("lag", f"the event loop was late by {lag:.2f} s")
        if error:
            self.notice("exception", error)
        if monotonic() - self._rotated >= SLICE_S:
            self.rotate()
            self._look_for_full_core()
            self._look_at_sampler()

    def _look_for_full_core(self) -> None:
        was, self._is_full = self._is_full, is_full(list(self.ring.ended), self.options.core)
        if self._is_full and not was:
            part = f"{self.options.core:.0%} of a core"
            self.notice("core", f"the event loop's thread used {part} for {FULL_S:g} s")

    def _look_at_sampler(self) -> None:
        if not self.no_samples and (problem := self.sampler.check()):
            self.no_samples = problem
            logger.warning("schedprof: the black box takes no more samples: %s", problem)

    def rotate(self) -> None:
        """End the slice under way; only the thread of the loop does that."""
        self.ring.rotate(self.counting.read())
        self._rotated = monotonic()

    def stalled(self, since: float, code: CodeType | None, seconds: float) -> None:
        """Note a stall that has not ended, for the next beat; called while it lasts.

        One that may never end is told at once.
        """
        if seconds >= self.options.stall:
            self._stalls[since] = seconds, code
        if seconds >= HANGING * self.options.stall and not self._is_told:
            self._is_told = True
            self.notice("stall", f"{named(code)} has used {seconds:.1f} s of CPU time so far")

    def heard(self, error: str) -> None:
        """Note an error that was logged, for the next beat; any thread calls this."""
        self._error = self._error or error

    def notice(self, kind: str, why: str) -> None:
        """Write a run because something happened, unless one was written not long ago."""
        now = monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + self.options.every
            self.write(Request(kind, why))
        else:
            self._note(Request(kind, why))

    def capture(self, request: Request) -> Future[bytes]:
        """Pack the ring as it is now."""
        return self.requests.ask(self._packing(request))

    def write(self, request: Request) -> Future[None]:
        """Write the ring as it is now."""
        return self.requests.ask(partial(self._write, self._packing(request), request))

    def _note(self, request: Request) -> None:
        self.ring.current.note_event(Event(time(), request.kind, request.why))

    def _packing(self, request: Request) -> Callable[[], bytes]:
        self._note(request)
        self.rotate()
        loop = type(self.loop).__module__.partition(".")[0]
        origin = Origin(self.scheduler.address, loop, self.sampler.interval, self.no_samples)
        return partial(pack, list(self.ring.ended), request, origin)

    def _write(self, packing: Callable[[], bytes], request: Request) -> None:
        """Write a run by a process of its own, and tell of it in the log; runs in our thread."""
        try:
            path = start_writer(packing(), self.options.directory, self.options.keep)
        except Exception as error:  # a full disk, or no room for another process
            logger.warning("schedprof: the black box could not be written: %s", error)
            return
        self.written += 1
        logger.info("schedprof: the black box was written to %s: %s", path, request.why)


def named(code: CodeType | None) -> str:
    """Return the name of a function."""
    return "a callback" if code is None else name_places([place_of(code)])[0]


def is_full(slices: list[Slice], part: float) -> bool:
    """Whether the loop's thread filled a core for the last minute."""
    if not slices:
        return False
    last = end_of(slices[-1])
    begun = [each.begun for each in slices if last.at - each.begun.at >= FULL_S - SLICE_S / 2]
    if not begun:
        return False
    first = begun[-1]
    return last.thread_cpu - first.thread_cpu >= part * (last.at - first.at)
