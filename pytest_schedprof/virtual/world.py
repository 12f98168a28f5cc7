"""A virtual cluster as the agent sees it: an extension of its scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from pytest_schedprof.virtual.choices import Choices
from pytest_schedprof.virtual.clocks import EPOCH
from pytest_schedprof.virtual.journal import Journal, Window, Workforce
from pytest_schedprof.virtual.loop import VirtualLoop

QUIET_S = 120.0
"""Virtual time after which a cluster in which nothing is under way is stuck. Whatever the scheduler
does from time to time (stealing, looking for lost workers) had its chance then."""

UNFINISHED = frozenset({"waiting", "processing", "queued", "no-worker"})

MOST = 10
"""Number of tasks that are told."""


def tell_stuck(seconds: float, unfinished: Sequence[Any]) -> str:
    """Tell the story of the tasks that will never finish."""
    if not unfinished:
        return (
            "schedprof: the test waits for something that cannot happen any more: after "
            f"{seconds:g} s of virtual time no task is left to run"
        )
    told = "; ".join(_state_of(each) for each in unfinished[:MOST])
    more = f"; and {len(unfinished) - MOST} more" if len(unfinished) > MOST else ""
    return (
        f"schedprof: a deadlock: after {seconds:g} s of virtual time nothing can happen any more, "
        f"and {len(unfinished)} tasks are not finished: {told}{more}"
    )


def _state_of(task: Any) -> str:
    words = [f"{task.key!r} is {task.state}"]
    if task.processing_on is not None:
        words.append(f"on {task.processing_on.address}")
    if task.waiting_on:
        words.append(f"and waits for {sorted(str(each.key) for each in task.waiting_on)[:3]}")
    return " ".join(words)


class Workers(Protocol):
    """Does to workers what was planned."""

    def check(self, what: str, worker: str) -> str:
        """Return why this cannot be done, if so."""

    def act(self, what: str, worker: str) -> None:
        """Do it."""


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

    def __init__(self, loop: VirtualLoop, scheduler: Any) -> None:
        self.loop = loop
        self.journal = Journal()
        self.workforce = Workforce()
        self.choices = Choices(scheduler, loop)
        self.quiet_since = loop.now
        """When something that was under way last came to its end."""
        self.workers: Workers | None = None
        self._scheduler = scheduler
        loop.find_fault = self._find_fault

    def expect(self, call: Callable[[], None]) -> Expected:
        """Return the function as one that is under way while a timer holds it."""
        return Expected(self, call)

    def plan(self, seconds: float, what: str, worker: str) -> str:
        """Let something happen to a worker in so many seconds; return why it cannot, if so."""
        assert self.workers is not None
        if fault := self.workers.check(what, worker):
            return fault
        act = partial(self.workers.act, what, worker)
        self.loop.call_later(max(0.0, seconds), self.expect(act))
        return ""

    def _find_fault(self, is_patient: bool) -> str:
        """Say why nothing can happen any more, if so.

        Only periodic callbacks are left then, and have changed nothing for a while.
        """
        now = self.loop.now
        if now - self.quiet_since < QUIET_S:
            return ""
        self.quiet_since = now
        if any(isinstance(each, Expected) for each in self.loop.awaited()):
            return ""
        unfinished = [each for each in self._scheduler.tasks.values() if each.state in UNFINISHED]
        if not unfinished and not is_patient:
            return ""
        return tell_stuck(now - EPOCH, unfinished)

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
