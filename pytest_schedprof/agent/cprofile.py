"""cProfile on the thread of the scheduler's event loop."""

from __future__ import annotations

import cProfile
import marshal
import sys
from types import CodeType
from typing import Any

from pytest_schedprof.agent.recordings import Recording, begin, under_way

Place = tuple[str, int, str]
"""File, first line and name: how pstats names a function."""


def proof() -> None:
    """Called once when recording begins; a profile without it saw nothing."""


class CProfileRecording(Recording):
    """One profiler of the standard library at work."""

    kind = "cprofile"

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self.profiler = cProfile.Profile()

    async def end(self, timeout: float) -> dict[str, Any]:
        """Take the hook away and give a file as `cProfile` writes it, with qualified names."""
        self.profiler.disable()
        self.profiler.create_stats()
        codes = [entry.code for entry in self.profiler.getstats()]
        self.content = marshal.dumps(qualified(self.profiler.stats, codes))
        return {}


def qualified(stats: dict[Place, Any], codes: list[CodeType | str]) -> dict[Place, Any]:
    """The same statistics under qualified names, which code knows since Python 3.11."""
    names = {
        (code.co_filename, code.co_firstlineno, code.co_name): code.co_qualname
        for code in codes
        if isinstance(code, CodeType) and hasattr(code, "co_qualname")
    }

    def place(key: Place) -> Place:
        return (key[0], key[1], names.get(key, key[2]))

    return {
        place(key): (*costs, {place(caller): cost for caller, cost in callers.items()})
        for key, (*costs, callers) in stats.items()
    }


async def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Start a recording; the answer holds a `token`, or a `problem`."""
    if "cprofile" in under_way(dask_scheduler) or sys.getprofile() is not None:
        return {"problem": "busy"}
    recording = CProfileRecording(client)
    try:
        recording.profiler.enable()
    except ValueError:  # since Python 3.12 there can be but one
        recording.remove()
        return {"problem": "busy"}
    proof()
    return begin(dask_scheduler, recording)
