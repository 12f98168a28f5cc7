"""Exact counts: calls and bytecodes of chosen modules' functions, messages and bytes."""

from __future__ import annotations

import json
import re
import sys
from types import CodeType
from typing import Any

from .monitoring import Monitor
from .names import functions_of
from .opcodes import Opcodes
from .recordings import Recording, begin, under_way
from .traffic import Traffic

CLOCKWORK = (
    "distributed.active_memory_manager:ActiveMemoryManagerExtension.run_once",
    "distributed.scheduler:Scheduler._check_no_workers",
    "distributed.scheduler:Scheduler.check_idle",
    "distributed.scheduler:Scheduler.check_worker_ttl",
    "distributed.scheduler:Scheduler.client_heartbeat",
    "distributed.scheduler:Scheduler.heartbeat_worker",
    "distributed.scheduler:Scheduler.identity",
    "distributed.stealing:WorkStealing.balance",
)
"""What the clock calls, and not a task. Neither it nor what it calls is counted, or counts would
depend on how long the tasks took."""

HAS_MONITORING = hasattr(sys, "monitoring")


def proof() -> None:
    """Called once when recording begins, to see it counted."""


class CountsRecording(Recording):
    """One counter at work."""

    kind = "counts"

    def __init__(self, client: str, functions: dict[str, list[CodeType]], bytecodes: bool) -> None:
        super().__init__(client)
        self.functions = functions
        self.bytecodes = bytecodes
        known = chosen([name.partition(":")[0] for name in CLOCKWORK])
        clockwork = [code for name in CLOCKWORK for code in known.get(name, ())]
        codes = [*(code for each in functions.values() for code in each), proof.__code__]
        kind = Monitor if HAS_MONITORING else Opcodes
        self.counter = kind(codes, clockwork, bytecodes=bytecodes)
        self.traffic = Traffic()

    def begin(self) -> bool:
        """Whether there is room for a counter."""
        if not self.counter.begin():
            return False
        self.traffic.begin()
        return True

    async def end(self, timeout: float) -> dict[str, Any]:
        """Put everything back, then count."""
        self.traffic.end()
        self.counter.end()
        counts = {name: self._counts(codes) for name, codes in self.functions.items()}
        record = {
            "schedprof_counts": 1,
            "python": sys.version.split()[0],
            "functions": {name: each for name, each in counts.items() if any(each.values())},
            "whole": dict(self.traffic.counts),
        }
        self.content = json.dumps(record, indent=1).encode()
        return {}

    def _counts(self, codes: list[CodeType]) -> dict[str, int]:
        calls = {"calls": sum(map(self.counter.calls_of, codes))}
        if not self.bytecodes:
            return calls
        return {**calls, "bytecodes": sum(map(self.counter.bytecodes_of, codes))}


def chosen(modules: list[str]) -> dict[str, list[CodeType]]:
    """The functions of the modules that the expressions name.

    Several may have one name: what gets and what sets a property, or a function and one that
    somebody put in its place.
    """
    wanted = re.compile("|".join(modules))
    found: dict[str, list[CodeType]] = {}
    for name, module in sorted(sys.modules.items()):
        if module is not None and wanted.fullmatch(name):
            for qualname, code in functions_of(module):
                codes = found.setdefault(f"{name}:{qualname}", [])
                if not any(code is each for each in codes):  # as of closures, which share theirs
                    codes.append(code)
    return found


async def start(
    modules: list[str], bytecodes: bool, client: str, dask_scheduler: Any = None
) -> dict[str, Any]:
    """Start to count; the answer holds a `token`, or a `problem`."""
    if "counts" in under_way(dask_scheduler):
        return {"problem": "busy"}
    recording = CountsRecording(client, chosen(modules), bytecodes)
    if not recording.begin():
        return {"problem": "busy"}
    proof()
    if recording.counter.calls_of(proof.__code__) != 1:
        await recording.end(0)
        return {"problem": "failed"}
    return begin(dask_scheduler, recording)
