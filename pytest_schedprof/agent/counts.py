"""Exact counts: calls and bytecodes of chosen modules' functions, messages and bytes."""

from __future__ import annotations

import json
import re
import sys
from types import CodeType
from typing import Any

from pytest_schedprof.agent.monitoring import Monitor
from pytest_schedprof.agent.names import functions_of
from pytest_schedprof.agent.opcodes import Opcodes
from pytest_schedprof.agent.recordings import Recording, begin, under_way
from pytest_schedprof.agent.traffic import Traffic

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

    def __init__(self, client: str, functions: dict[str, CodeType], bytecodes: bool) -> None:
        super().__init__(client)
        self.functions = functions
        self.bytecodes = bytecodes
        known = chosen([name.partition(":")[0] for name in CLOCKWORK])
        clockwork = [known[name] for name in CLOCKWORK if name in known]
        codes = [*functions.values(), proof.__code__]
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
        counts = {name: self._counts(code) for name, code in self.functions.items()}
        record = {
            "schedprof_counts": 1,
            "python": sys.version.split()[0],
            "functions": {name: each for name, each in counts.items() if any(each.values())},
            "whole": dict(self.traffic.counts),
        }
        self.content = json.dumps(record, indent=1).encode()
        return {}

    def _counts(self, code: CodeType) -> dict[str, int]:
        calls = {"calls": self.counter.calls_of(code)}
        if not self.bytecodes:
            return calls
        return {**calls, "bytecodes": self.counter.bytecodes_of(code)}


def chosen(modules: list[str]) -> dict[str, CodeType]:
    """The functions of the modules that the expressions name."""
    wanted = re.compile("|".join(modules))
    return {
        f"{name}:{qualname}": code
        for name, module in sorted(sys.modules.items())
        if module is not None and wanted.fullmatch(name)
        for qualname, code in functions_of(module)
    }


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
