"""Counts calls and bytecodes of chosen modules' functions, and messages and bytes, exactly."""

from __future__ import annotations

import re
import sys
from types import CodeType
from typing import Any

from .decisions import WORLD
from .monitoring import Monitor
from .names import functions_of
from .opcodes import Opcodes
from .orders import Orders
from .recordings import Recording, as_json, begin, under_way
from .traffic import Traffic

PERIODIC = (
    "distributed.active_memory_manager:ActiveMemoryManagerExtension.run_once",
    "distributed.scheduler:Scheduler._check_no_workers",
    "distributed.scheduler:Scheduler.check_idle",
    "distributed.scheduler:Scheduler.check_worker_ttl",
    "distributed.semaphore:SemaphoreExtension._check_lease_timeout",
    "distributed.stealing:WorkStealing.balance",
)
"""Functions that the scheduler calls from time to time. In real time neither they nor what they
call is counted: the counts would depend on how long the tasks took. In virtual time that is known
to the nanosecond, and they are counted."""

NOT_COUNTED = (
    "distributed.scheduler:Scheduler.client_heartbeat",
    "distributed.scheduler:Scheduler.heartbeat_worker",
    "distributed.scheduler:Scheduler.identity",
    "pytest_schedprof.virtual.choices:Choices.complete",
    "pytest_schedprof.virtual.choices:Choices.sent",
    "pytest_schedprof.virtual.choices:Choices.transition",
)
"""Functions that clients and workers call from time to time, or what records decisions. Neither
they nor what they call is ever counted: the session has clients too, and heartbeats of hollow
workers hold no measurements."""

HAS_MONITORING = hasattr(sys, "monitoring")


def proof() -> None:
    """Do nothing; called once when recording begins, to check that it is counted."""


class CountsRecording(Recording):
    """A counter at work."""

    kind = "counts"

    def __init__(
        self,
        client: str,
        functions: dict[str, list[CodeType]],
        bytecodes: bool,
        modules: list[str],
        holder: Any,
    ) -> None:
        super().__init__(client)
        self.functions = functions
        self.bytecodes = bytecodes
        is_virtual = WORLD in getattr(holder, "extensions", ())
        names = NOT_COUNTED if is_virtual else (*PERIODIC, *NOT_COUNTED)
        known = chosen([name.partition(":")[0] for name in names])
        clockwork = [code for name in names for code in known.get(name, ())]
        codes = [*(code for each in functions.values() for code in each), proof.__code__]
        if HAS_MONITORING:
            self.counter: Monitor | Opcodes = Monitor(codes, clockwork, bytecodes=bytecodes)
        else:
            others = getattr(holder, "run_on_loops", None)
            self.counter = Opcodes(codes, clockwork, bytecodes=bytecodes, others=others)
        self.traffic = Traffic()
        self.orders = Orders(modules)

    def begin(self) -> bool:
        """Start to count; False if another tool has the hook."""
        if not self.counter.begin():
            return False
        self.orders.begin()
        self.traffic.begin()
        return True

    async def end(self, timeout: float) -> dict[str, Any]:
        """Remove all hooks, then add up the counts."""
        self.traffic.end()
        self.counter.end()
        self.orders.end()
        counts = {name: self._counts(codes) for name, codes in self.functions.items()}
        record = {
            "schedprof_counts": 1,
            "python": sys.version.split()[0],
            "functions": {name: each for name, each in counts.items() if any(each.values())},
            "whole": dict(self.traffic.counts),
        }
        self.content = as_json(record)
        return {}

    def _counts(self, codes: list[CodeType]) -> dict[str, int]:
        calls = {"calls": sum(map(self.counter.calls_of, codes))}
        if not self.bytecodes:
            return calls
        return {**calls, "bytecodes": sum(map(self.counter.bytecodes_of, codes))}


def chosen(modules: list[str]) -> dict[str, list[CodeType]]:
    """Return the code of all functions of modules whose names match, by the function's name.

    Several functions can have one name: getter and setter of a property, or a function and its
    replacement.
    """
    wanted = re.compile("|".join(modules))
    found: dict[str, list[CodeType]] = {}
    for name, module in sorted(sys.modules.items()):
        if module is not None and wanted.fullmatch(name):
            for qualname, code in functions_of(module):
                codes = found.setdefault(f"{name}:{qualname}", [])
                if not any(code is each for each in codes):  # closures share their code
                    codes.append(code)
    return found


async def start(
    modules: list[str], bytecodes: bool, client: str, dask_scheduler: Any = None
) -> dict[str, Any]:
    """Start to count; return a `token` or a `problem`."""
    if "counts" in under_way(dask_scheduler):
        return {"problem": "busy"}
    recording = CountsRecording(client, chosen(modules), bytecodes, modules, dask_scheduler)
    if not recording.begin():
        holder = recording.counter.holder()
        return {"problem": "taken", "holder": holder, "is_newer": HAS_MONITORING}
    proof()
    if recording.counter.calls_of(proof.__code__) != 1:
        await recording.end(0)
        return {"problem": "failed"}
    return begin(dask_scheduler, recording)
