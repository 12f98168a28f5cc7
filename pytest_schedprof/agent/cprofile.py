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


def proof_of_begin() -> None:
    """Do nothing; called when recording begins, so that every valid profile has it."""


def proof_of_end() -> None:
    """Do nothing; called when recording ends: nobody has taken the profiler's place meanwhile."""


class CProfileRecording(Recording):
    """A profiler of the standard library at work."""

    kind = "cprofile"

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self.profiler = cProfile.Profile()

    async def end(self, timeout: float) -> dict[str, Any]:
        proof_of_end()
        self.profiler.disable()
        functions = summed(self.profiler.getstats())
        self.content = as_json({"schedprof_cprofile": 1, "functions": functions})
        return {}


def summed(entries: list[Any]) -> list[tuple[StatsKey, list[float], list[Any]]]:
    """Return functions with their costs, and with those of each caller.

    Code objects that have one place and name are one function, as all of named tuples: `pstats`
    would keep one of them and forget the others.
    """
    costs: dict[StatsKey, list[float]] = {}
    callers: dict[StatsKey, dict[StatsKey, list[float]]] = {}
    for entry in entries:
        calls, once, own, total = _costs(entry)
        _add(costs, _place(entry.code), (once, calls, own, total))
    for entry in entries:
        for call in entry.calls or ():
            if (called := _place(call.code)) in costs:
                _add(callers.setdefault(called, {}), _place(entry.code), _costs(call))
    return [(key, cost, list(callers.get(key, {}).items())) for key, cost in costs.items()]


def _place(code: CodeType | str) -> StatsKey:
    if isinstance(code, str):  # a function of C
        return ("~", 0, code)
    return (code.co_filename, code.co_firstlineno, code.co_qualname)


def _costs(entry: Any) -> tuple[float, float, float, float]:
    """Return all calls, those that are not recursive, seconds of its own, and with callees."""
    calls = entry.callcount
    return (calls, calls - entry.reccallcount, entry.inlinetime, entry.totaltime)


def _add(
    sums: dict[StatsKey, list[float]], key: StatsKey, amounts: tuple[float, float, float, float]
) -> None:
    sums[key] = [sum(pair) for pair in zip(sums.get(key, [0] * 4), amounts, strict=True)]


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
    proof_of_begin()
    return begin(dask_scheduler, recording)
