"""Tells what went wrong in a virtual cluster, with the story of the tasks that it concerns."""

from __future__ import annotations

import asyncio
import dis
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from distributed import scheduler, worker_state_machine

UNFINISHED = frozenset({"waiting", "processing", "queued", "no-worker"})

MOST = 10
"""Number of tasks that are named."""

WITH_STORY = 2
"""Number of tasks whose story is told."""

STAYING = frozenset({"Scheduler.add_worker", "Scheduler.add_client", "Scheduler.handle_worker"})
"""Coroutines that last as long as a worker or a client stays."""

LINES = 8
"""Number of transitions of a story, the last ones."""


class Fault(NamedTuple):
    """Why a test must not go on."""

    text: str
    is_final: bool = True
    """Whether it holds even if what the test waits for has come."""


def unfinished_tasks(scheduler: Any) -> list[Any]:
    """Return the tasks that should still run, or that somebody wants and nobody will make."""
    return [
        each
        for each in scheduler.tasks.values()
        if each.state in UNFINISHED or (each.state == "released" and each.who_wants)
    ]


def tell_stuck(
    seconds: float, unfinished: Sequence[Any], story_of: Callable[[Any], str] = lambda task: ""
) -> str:
    """Tell the tasks that will never finish, and the story of the first of them."""
    if not unfinished:
        return (
            "schedprof: the test waits for something that cannot happen any more: after "
            f"{seconds:g} s of virtual time no task is left to run"
        )
    # Those that wait for others are only consequences.
    roots = sorted(unfinished, key=lambda each: bool(each.waiting_on))
    told = "; ".join(_state_of(each) for each in roots[:MOST])
    more = f"; and {len(unfinished) - MOST} more" if len(unfinished) > MOST else ""
    return (
        f"schedprof: a deadlock: after {seconds:g} s of virtual time nothing can happen any more, "
        f"and {len(unfinished)} tasks are not finished: {told}{more}"
        + "".join(story_of(each) for each in roots[:WITH_STORY])
    )


def _state_of(task: Any) -> str:
    words = [f"{task.key!r} is {task.state}"]
    if task.processing_on is not None:
        words.append(f"on {task.processing_on.address}")
    if task.waiting_on:
        words.append(f"and waits for {sorted(str(each.key) for each in task.waiting_on)[:3]}")
    if task.state == "released":
        words.append("and wanted, but nobody can make it")
    return " ".join(words)


def tell_story(task: Any, scheduler: Any, worker: Any, begun: float) -> str:
    """Tell a task's last transitions, and what the worker knows of it that should run it."""
    lines = [f"story of {task.key!r}, in virtual seconds:"]
    for each in list(scheduler.story(task.key))[-LINES:]:
        lines.append(f"  {each[5] - begun:.6f} {each[0]!r} {each[1]} -> {each[2]} ({each[4]})")
    if task.processing_on is not None:
        lines.append(f"  {task.processing_on.address} {_known_to(worker, task.key)}")
    return "".join(f"\n{each}" for each in lines)


def _known_to(worker: Any, key: Any) -> str:
    if worker is None:
        return "has left"
    task = worker.state.tasks.get(key)
    return "knows nothing of it" if task is None else f"knows it as {task.state}"


def tell_error(what: str, seconds: float, error: BaseException) -> str:
    """Tell what an error shows and where it was raised, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = "".join(f"\n  in {each.name}, line {each.lineno}: {each.line}" for each in frames)
    return (
        f"schedprof: {what}, after {seconds:g} s of virtual time: "
        f"{type(error).__name__}: {str(error)[:500]}{places}"
    )


def tell_standstill(names: Sequence[str]) -> str:
    """Tell the coroutines that go on and on without waiting for anything."""
    return (
        "schedprof: time stands still: coroutines of the cluster go on for ever, and wait for "
        f"nothing that takes time: {', '.join(names[:MOST])}"
    )


def names_at_work(tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
    """Return the scheduler's coroutines that tasks are in, but for those that only stay."""
    chains = [list(_awaited(each.get_coro())) for each in tasks]
    names = {name for chain in chains for name in chain if name.startswith("Scheduler.")}
    return sorted(names - STAYING)


def tell_work(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Tell which requests the scheduler has not answered, if any."""
    names = names_at_work(tasks)
    return f"\nrequests under way: {', '.join(names)}" if names else ""


def _awaited(coroutine: Any) -> Iterator[str]:
    """Yield the name of a coroutine, and of those that it waits for."""
    while (name := getattr(coroutine, "__qualname__", None)) is not None:
        yield name
        coroutine = getattr(coroutine, "cr_await", None)


def tell_horizon(seconds: float) -> str:
    """Tell that a cluster's time is over."""
    return (
        f"schedprof: the test has not ended after {seconds:g} s of virtual time, its horizon; "
        "raise the cluster option horizon if it needs more"
    )


LOGGERS = ("distributed", "asyncio", "tornado")

MACHINES = ("_transition", "tell", "handle_stimulus")
"""Functions in which any error is one of a state machine: a transition of the scheduler, its
handling of a worker's message, and the worker's handling of an event."""

MESSAGES = ("handle_stream", "update_graph")
"""Functions that handle what a client sends without waiting for an answer."""

RAISE = dis.opmap["RAISE_VARARGS"]


def _invalid_states() -> tuple[type[Exception], ...]:
    """Return the exceptions by which distributed reports a broken state, as this release has it."""
    names = ("InvalidTransition", "InvalidTaskState", "TransitionCounterMaxExceeded")
    found = [
        getattr(each, name, None) for each in (scheduler, worker_state_machine) for name in names
    ]
    return (AssertionError, *(each for each in found if each is not None))


INVALID = _invalid_states()


class Witness(logging.Handler):
    """Keeps the first such error: those after it may follow from it, and nobody needs to know."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._error: BaseException | None = None
        self._is_over = False
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Look at an error that was logged, or in whose handling something was logged."""
        if self._is_over:
            return
        logged = record.exc_info and record.exc_info[1]
        error = logged or sys.exc_info()[1]
        if error and ((logged and is_of_a_machine(error)) or is_of_a_message(error)):
            self._error, self._is_over = error, True

    def take(self) -> BaseException | None:
        """Return the error, once."""
        error, self._error = self._error, None
        return error


def is_of_a_machine(error: BaseException) -> bool:
    """Return whether the error shows that a state machine is broken."""
    return isinstance(error, INVALID) or _is_in(MACHINES, error)


def is_of_a_message(error: BaseException) -> bool:
    """Return whether distributed's own code failed at a client's message.

    An error that it raises by a statement, as for a graph that cannot be read, is addressed to the
    client; so is any error of a user's code.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not _is_in(MESSAGES, error):
        return False
    frame = trace.tb_frame
    is_own = str(frame.f_globals.get("__name__")).startswith("distributed.")
    is_meant = frame.f_code.co_code[trace.tb_lasti] == RAISE and not isinstance(error, INVALID)
    return is_own and not is_meant


def _is_in(names: tuple[str, ...], error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in names:
            return True
        trace = trace.tb_next
    return False
