"""Measure the CPU time of workers' processes, by phase of a computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pytest_schedprof.agent import facts, worker_clocks
from pytest_schedprof.model.phases import EXECUTION, OVERHEAD
from pytest_schedprof.remote.control import Control

Process: TypeAlias = tuple[str, ...]
"""What identifies a process, also of another machine."""


@dataclass(frozen=True, slots=True)
class _Clocks:
    """CPU seconds so far."""

    of_processes: Mapping[Process, float]
    of_tasks: Mapping[str, float]
    """Of tasks' code, by the address of the worker."""


class WorkerWatch:
    """Measures what workers use in each window. The scheduler passes the question on, so it is
    asked before recordings begin and after they have ended."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def __call__(self) -> Callable[[], dict[str, float]]:
        """Begin to measure; the returned function ends it and returns seconds by phase.

        It returns no phases if workers came or left meanwhile, if they compute nothing, or if they
        are in the test's own process.
        """
        before = self._read()

        def end() -> dict[str, float]:
            after = self._read() if before else None
            return _spent(before, after) if before and after else {}

        return end

    def _read(self) -> _Clocks | None:
        told = self._control.call_workers(worker_clocks.read_clocks)
        found = {address: each for address, each in told.items() if each is not None}
        processes = {tuple(each["process"]): float(each["used"]) for each in found.values()}
        here = tuple(str(part) for part in facts.process())
        if not processes or here in processes:
            return None
        return _Clocks(processes, {address: each["execution"] for address, each in found.items()})


def _spent(before: _Clocks, after: _Clocks) -> dict[str, float]:
    is_same = before.of_processes.keys() == after.of_processes.keys()
    if not is_same or before.of_tasks.keys() != after.of_tasks.keys():
        return {}
    used = sum(after.of_processes.values()) - sum(before.of_processes.values())
    execution = sum(after.of_tasks.values()) - sum(before.of_tasks.values())
    return {EXECUTION: execution, OVERHEAD: max(0.0, used - execution)}
