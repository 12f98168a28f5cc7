"""Runs cProfile on the thread of the scheduler's event loop."""

from __future__ import annotations

import cProfile
import sys
import threading
from types import CodeType
from typing import Any

from .recordings import Recording, as_json, begin, under_way

StatsKey = tuple[str, int, str]
"""File, first line and name: how pstats names a function."""

EVENTS = (
    "PY_START", "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD", "PY_UNWIND",
    "CALL", "C_RETURN", "C_RAISE",
)  # fmt: skip
"""What the standard library's profiler is called for since Python 3.12."""


def proof() -> None:
    """Do nothing; called once when recording begins, so that every valid profile has it."""


class CProfileRecording(Recording):
    """A profiler of the standard library at work."""

    kind = "cprofile"

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self.profiler = cProfile.Profile()

    async def end(self, timeout: float) -> dict[str, Any]:
        self.profiler.disable()
        self.profiler.create_stats()
        codes = [entry.code for entry in self.profiler.getstats()]
        functions = [
            (key, costs, list(callers.items()))
            for key, (*costs, callers) in qualified(self.profiler.stats, codes).items()
        ]
        self.content = as_json({"schedprof_cprofile": 1, "functions": functions})
        return {}


def qualified(stats: dict[StatsKey, Any], codes: list[CodeType | str]) -> dict[StatsKey, Any]:
    """Rename functions to their qualified names."""
    names = {
        (code.co_filename, code.co_firstlineno, code.co_name): code.co_qualname
        for code in codes
        if isinstance(code, CodeType)
    }

    def place(key: StatsKey) -> StatsKey:
        return (key[0], key[1], names.get(key, key[2]))

    return {
        place(key): (*costs, {place(caller): cost for caller, cost in callers.items()})
        for key, (*costs, callers) in stats.items()
    }


def keep_to_this_thread() -> None:
    """Filter the callbacks of the profiler at work so that they ignore calls of other threads.

    Since Python 3.12 a profiler gets the calls of all threads and counts them as one thread's.
    """
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    mine = threading.get_ident()

    def kept(callback: Any) -> Any:
        return lambda *event: callback(*event) if threading.get_ident() == mine else None

    for name in EVENTS:
        event = getattr(monitoring.events, name)
        # What stood there is returned. Which callback an event has differs between Pythons.
        if callback := monitoring.register_callback(monitoring.PROFILER_ID, event, None):
            monitoring.register_callback(monitoring.PROFILER_ID, event, kept(callback))


async def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Start a recording; return a `token` or a `problem`."""
    if "cprofile" in under_way(dask_scheduler) or sys.getprofile() is not None:
        return {"problem": "busy"}
    recording = CProfileRecording(client)
    try:
        recording.profiler.enable()
    except ValueError:  # since Python 3.12 only one is possible
        recording.remove()
        return {"problem": "busy"}
    keep_to_this_thread()
    proof()
    return begin(dask_scheduler, recording)
