"""A virtual cluster as the agent sees it: an extension of its scheduler."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pytest_schedprof.virtual.choices import Choices
from pytest_schedprof.virtual.journal import Journal, Log, Window, Workforce
from pytest_schedprof.virtual.loop import EPOCH, VirtualLoop
from pytest_schedprof.virtual.stories import (
    Fault,
    Witness,
    is_of_a_machine,
    tell_error,
    tell_horizon,
    tell_story,
    tell_stuck,
    tell_work,
    unfinished_tasks,
)

QUIET_S = 120.0
"""Virtual time after which a cluster in which nothing is under way is stuck. Whatever the scheduler
does from time to time (stealing, looking for lost workers) had its chance then."""


class Workers(Protocol):
    """Does to workers what was planned."""

    def check(self, what: str, worker: str) -> str:
        """Return why this cannot be done, if so."""

    def act(self, what: str, worker: str, seconds: float) -> None:
        """Do it, for so many seconds."""

    def arrive(self, name: str, threads: int) -> None:
        """Let a worker join."""

    def tempt(self, worker: Any, seconds: float) -> None:
        """Draw whether something happens to a worker during a task of so many seconds."""

    def find(self, address: str) -> Any:
        """Return the worker at an address, None if it has left."""


class Expected:
    """Something under way: a message, the end of a task or of a transfer, a planned fault."""

    __slots__ = ("_call", "_world")

    def __init__(self, world: World, call: Callable[[], None]) -> None:
        self._world = world
        self._call = call

    def __call__(self) -> None:
        self._world.quiet_since = self._world.loop.now
        self._call()


class World:
    """The cluster's clock, journal and workers."""

    def __init__(self, loop: VirtualLoop, scheduler: Any, horizon_s: float = math.inf) -> None:
        """Tell a test to end after so many virtual seconds."""
        self.loop = loop
        self.journal = Journal()
        self.workforce = Workforce()
        self.choices = Choices(scheduler, loop)
        self.quiet_since = loop.now
        """When something that was under way last came to its end."""
        self.patient_until = loop.now
        """Before this, quiet is no sign of being stuck: workers are cut off or silent."""
        self.workers: Workers | None = None
        self._horizon_s = horizon_s
        self._ends_at = loop.now + horizon_s
        self._scheduler = scheduler
        self._witness = Witness()
        loop.find_error, loop.find_fault = self._find_error, self._find_fault

    def expect(self, call: Callable[[], None]) -> Expected:
        """Return the function as one that is under way while a timer holds it."""
        return Expected(self, call)

    def plan(self, seconds: float, what: str, workers: list[str], lasting: float | None) -> str:
        """Let something happen to workers in so many seconds; return why it cannot, if so."""
        assert self.workers is not None
        for each in workers:
            if fault := self.workers.check(what, each):
                return fault
        for each in workers:
            act = partial(self.workers.act, what, each, math.inf if lasting is None else lasting)
            self.loop.call_later(max(0.0, seconds), self.expect(act))
        return ""

    def _find_error(self) -> Fault | None:
        """Tell an error that only a log tells, or a client that need not tell its test."""
        if (error := self._witness.take()) is None:
            return None
        what = "the cluster's own state is broken"
        if not is_of_a_machine(error):
            what = "the scheduler failed at what a client sent"
        return Fault(tell_error(what, self.loop.now - EPOCH, error))

    def _find_fault(self, is_patient: bool) -> Fault | None:
        """Say why the test must not go on now that the clock is to move, if so."""
        now = self.loop.now
        if now > self._ends_at:
            self._ends_at = now + self._horizon_s  # to take leave takes time, too
            return Fault(tell_horizon(self._horizon_s))
        is_quiet = now - max(self.quiet_since, self.patient_until) >= QUIET_S
        return self._find_stuck(is_patient) if is_quiet else None

    def _find_stuck(self, is_patient: bool) -> Fault | None:
        """Say why nothing can happen any more, if so.

        Only periodic callbacks are left then, and have changed nothing for a while.
        """
        now = self.quiet_since = self.loop.now
        if any(isinstance(each, Expected) for each in self.loop.awaited()):
            return None
        unfinished = unfinished_tasks(self._scheduler)
        if not unfinished and not is_patient:
            return None
        text = tell_stuck(now - EPOCH, unfinished, self._story_of)
        return Fault(text + tell_work(asyncio.all_tasks(self.loop)), is_final=False)

    def _story_of(self, task: Any) -> str:
        on = getattr(task.processing_on, "address", "")
        worker = self.workers.find(on) if self.workers is not None else None
        return tell_story(task, self._scheduler, worker, EPOCH)

    def begin_log(self) -> None:
        """Begin a log whose hash tells whether all was the same."""
        self.journal.log = Log(self.loop.now)

    def end_log(self) -> str:
        """End the log and return its hash; empty if there is none."""
        log, self.journal.log = self.journal.log, None
        return "" if log is None else log.digest()

    def begin(self) -> None:
        """Begin a window of the journal."""
        self.journal.window = window = Window(self.workforce, self.loop.now)
        self.choices.begin(window.keys, window.names, window.begun)

    def end(self) -> dict[str, Any]:
        """End the window; return the log's hash, the figures, and what happened by column."""
        window, self.journal.window = self.journal.window, None
        assert window is not None
        choices = self.choices.end()
        holding, self.workforce.holding = self.workforce.holding, None
        assert holding is not None
        figures = window.report(self.loop.now)
        return {
            "begun": window.begun - EPOCH,
            "hash": figures.pop("hash"),
            "figures": figures,
            "keys": window.keys.told(),
            "workers": [name.removeprefix("inproc://") for name in window.names.told()],
            "choices": choices,
            "tasks": window.stream.tasks.columns(),
            "transfers": window.stream.transfers.columns(),
            "held": holding.told(),
        }
