"""Hears errors of the scheduler or of a worker's state machine, which are only logged.

A real cluster goes on after such an error, and hangs later or answers wrongly; or its futures tell
the error to a test that never looks at them. Errors of requests, of graphs and of plugins are not
meant: whoever made them is told.
"""

from __future__ import annotations

import dis
import logging
import sys

from distributed import scheduler, worker_state_machine

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
