"""Runs cProfile on the thread of the scheduler's event loop."""

from __future__ import annotations

import cProfile
import marshal
import sys
import threading
from types import CodeType
from typing import Any

from .recordings import Recording, begin, under_way

StatsKey = tuple[str, int, str]
"""File, first line and name: how pstats names a function."""


def proof() -> None:
    """Do nothing; called once when recording begins, so that every valid profile has it."""


class CProfileRecording(Recording):
    """A profiler of the standard library at work."""

    kind = "cprofile"

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self.profiler = cProfile.Profile()

    async def end(self, timeout: float) -> dict[str, Any]:
        """Remove the hook and make a file as `cProfile` does, but with qualified names."""
        self.profiler.disable()
        self.profiler.create_stats()
        codes = [entry.code for entry in self.profiler.getstats()]
        self.content = marshal.dumps(qualified(self.profiler.stats, codes))
        return {}


def qualified(stats: dict[StatsKey, Any], codes: list[CodeType | str]) -> dict[StatsKey, Any]:
    """Rename functions to their qualified names, which code objects have since Python 3.11."""
    names = {
        (code.co_filename, code.co_firstlineno, code.co_name): code.co_qualname
        for code in codes
        if isinstance(code, CodeType) and hasattr(code, "co_qualname")
    }

    def place(key: StatsKey) -> StatsKey:
        return (key[0], key[1], names.get(key, key[2]))

    return {
        place(key): (*costs, {place(caller): cost for caller, cost in callers.items()})
        for key, (*costs, callers) in stats.items()
    }


def keep_to_this_thread(profiler: Any) -> None:
    """Filter the profiler's callbacks so that they ignore calls of other threads.

    Since Python 3.12 a profiler gets the calls of all threads and counts them as one thread's.
    """
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    mine, events = threading.get_ident(), monitoring.events

    def here(callback: Any) -> Any:
        return lambda *event: callback(*event) if threading.get_ident() == mine else None

    begins, ends = here(profiler._pystart_callback), here(profiler._pyreturn_callback)
    calls, returns = here(profiler._ccall_callback), here(profiler._creturn_callback)
    for callback, names in (
        (begins, (events.PY_START, events.PY_RESUME, events.PY_THROW)),
        (ends, (events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND)),
        (calls, (events.CALL,)),
        (returns, (events.C_RETURN, events.C_RAISE)),
    ):
        for event in names:
            monitoring.register_callback(monitoring.PROFILER_ID, event, callback)


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
    keep_to_this_thread(recording.profiler)
    proof()
    return begin(dask_scheduler, recording)
