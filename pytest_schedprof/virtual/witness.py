"""Hears errors of the scheduler's or a worker's own state machine, which are only logged.

A real cluster goes on after such an error, and hangs later or answers wrongly. Errors of requests,
of graphs and of plugins are not meant: whoever made them is told.
"""

from __future__ import annotations

import logging
import traceback
from types import TracebackType

from distributed import scheduler, worker_state_machine

LOGGERS = ("distributed", "asyncio", "tornado")

MACHINES = ("_transition", "tell", "handle_stimulus")
"""Functions in which any error is one of a state machine: a transition of the scheduler, its
handling of a worker's message, and the worker's handling of an event."""


def _invalid_states() -> tuple[type[Exception], ...]:
    """Return the exceptions by which distributed reports a broken state, as this release has it."""
    names = ("InvalidTransition", "InvalidTaskState", "TransitionCounterMaxExceeded")
    found = [
        getattr(each, name, None) for each in (scheduler, worker_state_machine) for name in names
    ]
    return (AssertionError, *(each for each in found if each is not None))


INVALID = _invalid_states()


class Witness(logging.Handler):
    """Keeps the first such error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._error: BaseException | None = None
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Look at an error that was logged."""
        error = record.exc_info and record.exc_info[1]
        if self._error is None and error and is_of_a_machine(error):
            self._error = error

    def take(self) -> BaseException | None:
        """Return the first error since this was last asked."""
        error, self._error = self._error, None
        return error


def is_of_a_machine(error: BaseException) -> bool:
    """Return whether the error shows that a state machine is broken."""
    if isinstance(error, INVALID):
        return True
    return any(each in MACHINES for each in _functions(error.__traceback__))


def _functions(trace: TracebackType | None) -> list[str]:
    return [frame.f_code.co_name for frame, _ in traceback.walk_tb(trace)]
