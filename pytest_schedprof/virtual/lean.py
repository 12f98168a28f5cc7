"""Leave out what distributed's workers do for their debuggers, in the process of a virtual cluster.

None of it changes what a state machine decides. By cProfile, copies and wrappers were some 8 % of
the process's time (20,000 tasks on 10,000 workers); the list has 185 bytes for each known task.
What leaving them out gains was not measured on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributed.worker_state_machine import StateMachineEvent, TaskState, WorkerState


def leave_out_debugging() -> None:
    """Make events of state machines cheaper."""
    _keep_no_events()
    _list_no_tasks()
    _dispatch_without_wrappers()


def _keep_no_events() -> None:
    """Copy no events for the log of them, which is empty in hollow workers."""
    for each in list(StateMachineEvent._classes.values()):
        if "to_loggable" in vars(each):
            each.to_loggable = _not_logged  # type: ignore[method-assign, assignment]


def _not_logged(event: StateMachineEvent, *, handled: float) -> StateMachineEvent:
    return event


class _Unlisted:
    """In the place of the list of all tasks of the process, which only distributed's tests read."""

    def add(self, task: TaskState) -> None:
        """Do nothing."""


def _list_no_tasks() -> None:
    TaskState._instances = _Unlisted()  # type: ignore[assignment]


def _dispatch_without_wrappers() -> None:
    """Find an event's handler as `singledispatchmethod` does, without its wrapper for each call."""
    find: Callable[..., Any] = vars(WorkerState)["_handle_event"].dispatcher.dispatch

    def handle(state: WorkerState, event: StateMachineEvent) -> Any:
        return find(type(event))(state, event)

    WorkerState._handle_event = handle  # type: ignore[method-assign, assignment]
