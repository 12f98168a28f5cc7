"""Measures what a scheduler does for each worker: exact counts on few, and times of many."""

from __future__ import annotations

from pytest_schedprof.agent import load, looks
from pytest_schedprof.analysis.sweeps import Counted, sweeps_of
from pytest_schedprof.backends.builtin.counts import CountsBackend
from pytest_schedprof.measuring.under_load import Session
from pytest_schedprof.measuring.wanted import Wanted, Work
from pytest_schedprof.measuring.watching import PATIENCE_S
from pytest_schedprof.model.capacity import Sweeps
from pytest_schedprof.model.profile import CostProfile

COUNTED = 3
"""How many sizes are counted, the smallest ones: a count of every bytecode takes long."""

MOST_WORKERS = 20_000
"""Most workers that are looked at. More take about the same time each: no cache holds them."""


class Sweeping:
    """What was counted and timed of one side, if any size is to be forecast."""

    def __init__(self, wanted: Wanted) -> None:
        self._is_wanted = bool(wanted.sizes)
        self._few = sorted(set(wanted.workers))[:COUNTED]
        self._sizes = sorted({min(each, MOST_WORKERS) for each in (*wanted.workers, *wanted.sizes)})
        self._counted: dict[int, Counted] = {}
        self._looks: dict[int, list[float]] = {each: [] for each in self._sizes}

    def add(self, session: Session, work: Work) -> None:
        """Count a round of work on a small cluster, once for each size; time looks on any."""
        if not self._is_wanted:
            return
        if session.workers in self._few and session.workers not in self._counted:
            self._counted[session.workers] = session.workers, counted(session, work)
        found = session.control.call(looks.time_looks, self._sizes, timeout_s=PATIENCE_S)
        for size, seconds in found.items():
            self._looks[size].append(seconds)

    def found(self) -> Sweeps | None:
        """Return what is done for each worker."""
        return sweeps_of([*self._counted.values()], self._looks) if self._is_wanted else None


def counted(session: Session, work: Work) -> dict[str, float]:
    """Run the work once more; return the bytecodes per task of each function."""
    backend, control = CountsBackend(rate_hz=1, options={}), session.control
    recording = backend.start(control, timeout_s=PATIENCE_S)
    before = control.call(load.begin)
    session.run(work)
    after = control.call(load.end, PATIENCE_S, timeout_s=PATIENCE_S)
    content = recording.stop(timeout_s=PATIENCE_S).content
    profile = backend.read(content, control.name_places)
    assert isinstance(profile, CostProfile)
    tasks = max(1, after["tasks"] - before["tasks"])
    return {
        name: costs["bytecodes"] / tasks
        for name, costs in profile.functions.items()
        if "bytecodes" in costs
    }
