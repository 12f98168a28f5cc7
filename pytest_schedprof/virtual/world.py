"""A virtual cluster as the agent sees it: an extension of its scheduler."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pytest_schedprof.virtual.faults import Faults

QUIET_S = 120.0
"""A cluster is stuck if nothing is under way for this virtual time. Until then the scheduler has
done all that it does periodically, such as stealing and looking for lost workers."""


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
        """Begin.

        Args:
            loop: the event loop of the cluster.
            scheduler: the scheduler that runs on it.
            horizon_s: virtual time after which a test is told to end.
        """
        self.loop = loop
        self.journal = Journal()
        self.workforce = Workforce()
        self.choices = Choices(scheduler, loop)
        self.quiet_since = loop.now
        """When something that was under way last came to its end."""
        self.patient_until = loop.now
        """Until then a quiet cluster is not stuck, because workers are cut off or silent."""
        self.workers: Faults | None = None
        self._horizon_s = horizon_s
        self._ends_at = loop.now + horizon_s
        self._scheduler = scheduler
        self._witness = Witness()
        loop.find_error, loop.find_fault = self._find_error, self._find_fault

    def expect(self, call: Callable[[], None]) -> Expected:
        """Mark a function: while a timer holds it, something is under way."""
        return Expected(self, call)

    def plan(self, seconds: float, what: str, workers: list[str], lasting: float | None) -> str:
        """Let something happen to workers after a delay; return why it cannot, or nothing."""
        assert self.workers is not None
        for worker in workers:
            if refusal := self.workers.check(what, worker):
                return refusal
        for worker in workers:
            act = partial(self.workers.act, what, worker, math.inf if lasting is None else lasting)
            self.loop.call_later(max(0.0, seconds), self.expect(act))
        return ""

    def _find_error(self) -> Fault | None:
        """Return an error that distributed only logs, or that the test's client may keep quiet."""
        if (error := self._witness.take()) is None:
            return None
        what = "the cluster's own state is broken"
        if not is_of_a_machine(error):
            what = "the scheduler failed at what a client sent"
        return Fault(tell_error(what, self.loop.now - EPOCH, error))

    def _find_fault(self, is_patient: bool) -> Fault | None:
        """Return why the test must end before the clock moves, or None."""
        now = self.loop.now
        if now > self._ends_at:
            self._ends_at = now + self._horizon_s  # the end of the test takes time, too
            return Fault(tell_horizon(self._horizon_s))
        is_quiet = now - max(self.quiet_since, self.patient_until) >= QUIET_S
        return self._find_stuck(is_patient) if is_quiet else None

    def _find_stuck(self, is_patient: bool) -> Fault | None:
        """Return why nothing can happen any more, or None.

        Only periodic callbacks have run for a while, and they have changed nothing.
        """
        now = self.quiet_since = self.loop.now
        if any(isinstance(callback, Expected) for callback in self.loop.awaited()):
            return None
        unfinished = unfinished_tasks(self._scheduler)
        if not unfinished and not is_patient:
            return None
        text = tell_stuck(now - EPOCH, unfinished, self._story_of)
        return Fault(text + tell_work(asyncio.all_tasks(self.loop)), is_final=False)

    def _story_of(self, task: Any) -> str:
        address = getattr(task.processing_on, "address", "")
        worker = self.workers.at(address) if self.workers is not None else None
        return tell_story(task, self._scheduler, worker, EPOCH)

    def begin_log(self) -> None:
        """Begin a log, whose hash is the same if everything was the same."""
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
            "keys": window.keys.in_order(),
            "workers": [name.removeprefix("inproc://") for name in window.names.in_order()],
            "choices": choices,
            "tasks": window.tasks.columns(),
            "transfers": window.transfers.columns(),
            "held": holding.columns(),
        }
