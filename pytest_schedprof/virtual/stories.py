"""Describes what went wrong in a virtual cluster, with the stories of the tasks concerned."""

from __future__ import annotations

import asyncio
import dis
import logging
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from distributed.worker_state_machine import InvalidTaskState, InvalidTransition

UNFINISHED = frozenset({"waiting", "processing", "queued", "no-worker"})

MOST = 10
"""Number of tasks that are named."""

WITH_STORY = 2
"""Number of tasks whose story is shown."""

STAYING = frozenset({"Scheduler.add_worker", "Scheduler.add_client", "Scheduler.handle_worker"})
"""Coroutines that run for as long as a worker or a client stays."""

LINES = 8
"""Number of the last transitions that a story has."""


class Fault(NamedTuple):
    """Why a test must end."""

    text: str
    is_final: bool = True
    """Whether it must end even if it got what it waits for."""


def unfinished_tasks(scheduler: Any) -> list[Any]:
    """Return tasks that should still run, and those that clients want and no worker will run."""
    return [
        task
        for task in scheduler.tasks.values()
        if task.state in UNFINISHED or (task.state == "released" and task.who_wants)
    ]


def tell_stuck(seconds: float, unfinished: Sequence[Any], story_of: Callable[[Any], str]) -> str:
    """Name the tasks that will never finish, with the stories of the first ones."""
    if not unfinished:
        return (
            "schedprof: the test waits for something that cannot happen any more: after "
            f"{seconds:g} s of virtual time no task is left to run"
        )
    # Tasks that wait for others are only consequences.
    roots = sorted(unfinished, key=lambda task: bool(task.waiting_on))
    states = "; ".join(map(_state_of, roots[:MOST]))
    more = f"; and {len(unfinished) - MOST} more" if len(unfinished) > MOST else ""
    return (
        f"schedprof: a deadlock: after {seconds:g} s of virtual time nothing can happen any more, "
        f"and {len(unfinished)} tasks are not finished: {states}{more}"
        + "".join(map(story_of, roots[:WITH_STORY]))
    )


def _state_of(task: Any) -> str:
    words = [f"{task.key!r} is {task.state}"]
    if task.processing_on is not None:
        words.append(f"on {task.processing_on.address}")
    if task.waiting_on:
        words.append(f"and waits for {sorted(str(needed.key) for needed in task.waiting_on)[:3]}")
    if task.state == "released":
        words.append("and wanted, but nobody can make it")
    return " ".join(words)


def tell_story(task: Any, scheduler: Any, worker: Any, origin: float) -> str:
    """Return a task's last transitions, and its state on the worker that should run it."""
    lines = [f"story of {task.key!r}, in virtual seconds:"]
    for key, start, finish, _, stimulus_id, moment in list(scheduler.story(task.key))[-LINES:]:
        lines.append(f"  {moment - origin:.6f} {key!r} {start} -> {finish} ({stimulus_id})")
    if task.processing_on is not None:
        known = None if worker is None else worker.state.tasks.get(task.key)
        state = "knows nothing of it" if known is None else f"knows it as {known.state}"
        state = "has left" if worker is None else state
        lines.append(f"  {task.processing_on.address} {state}")
    return "".join(f"\n{line}" for line in lines)


def tell_error(trouble: str, seconds: float, error: BaseException) -> str:
    """Return what an error shows and where it was raised, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = "".join(f"\n  in {frame.name}, line {frame.lineno}: {frame.line}" for frame in frames)
    return (
        f"schedprof: {trouble}, after {seconds:g} s of virtual time: "
        f"{type(error).__name__}: {str(error)[:500]}{places}"
    )


def tell_standstill(names: Sequence[str]) -> str:
    """Name the coroutines that run for ever without waiting for anything."""
    return (
        "schedprof: time stands still: coroutines of the cluster go on for ever, and wait for "
        f"nothing that takes time: {', '.join(names[:MOST])}"
    )


def names_at_work(tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
    """Return the coroutines of the scheduler in which tasks are, without those in `STAYING`."""
    names = {name for task in tasks for name in _awaited(task.get_coro())}
    return sorted(name for name in names - STAYING if name.startswith("Scheduler."))


def tell_work(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Name the requests that the scheduler has not answered, if any."""
    names = names_at_work(tasks)
    return f"\nrequests under way: {', '.join(names)}" if names else ""


def _awaited(coroutine: Any) -> Iterator[str]:
    """Yield the name of a coroutine, and the names of those for which it waits."""
    while (name := getattr(coroutine, "__qualname__", None)) is not None:
        yield name
        coroutine = getattr(coroutine, "cr_await", None)


def tell_horizon(seconds: float) -> str:
    """Return that a test has reached its horizon."""
    return (
        f"schedprof: the test has not ended after {seconds:g} s of virtual time, its horizon; "
        "raise the cluster option horizon if it needs more"
    )


LOGGERS = ("distributed", "asyncio", "tornado")

MACHINES = ("_transition", "deliver", "handle_stimulus")
"""Functions in which any error is one of a state machine: the scheduler's transitions, its handling
of a worker's message, and the worker's handling of an event."""

MESSAGES = ("handle_stream", "update_graph")
"""Functions that handle a client's messages, for which it awaits no answer."""

RAISE = dis.opmap["RAISE_VARARGS"]


INVALID = (AssertionError, InvalidTransition, InvalidTaskState)
"""The exceptions by which distributed reports a broken state."""

STATES = (
    "distributed.active_memory_manager",
    "distributed.scheduler",
    "distributed.shuffle._scheduler_plugin",
    "distributed.stealing",
    "distributed.worker_state_machine",
)
"""Modules that raise them so. One of another module is no worse than any error of a user's code."""


class Witness(logging.Handler):
    """Keeps the first such error, of which later ones may be consequences."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._error: BaseException | None = None
        self._is_over = False
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Check an error that was logged, or during whose handling something was logged."""
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
    is_of_state = isinstance(error, INVALID) and _module_of(error) in STATES
    return is_of_state or _is_in(MACHINES, error)


def is_of_a_message(error: BaseException) -> bool:
    """Return whether distributed's own code failed at a client's message.

    An error that it raises by a statement, such as for an unreadable graph, is meant for the
    client, and so is any error of a user's code.
    """
    trace = _innermost(error)
    if trace is None or not _is_in(MESSAGES, error):
        return False
    is_own = _module_of(error).startswith("distributed.")
    code = trace.tb_frame.f_code.co_code
    is_meant = code[trace.tb_lasti] == RAISE and not isinstance(error, INVALID)
    return is_own and not is_meant


def _innermost(error: BaseException) -> types.TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _module_of(error: BaseException) -> str:
    """Return the module that raised an error."""
    trace = _innermost(error)
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))


def _is_in(names: tuple[str, ...], error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in names:
            return True
        trace = trace.tb_next
    return False
