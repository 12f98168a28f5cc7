"""What a computation costs on its way: in the client before the scheduler sees it, and there."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pytest_schedprof.agent import facts
from pytest_schedprof.analysis.phases import bar_of, phases_of
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.evidence.stopwatch import Place, Stopwatch
from pytest_schedprof.formats.bar import draw_bar
from pytest_schedprof.model.result import BackendResult

PLACES: Mapping[str, Sequence[Place]] = {
    "optimisation": (
        ("distributed.client", "collections_to_expr"),
        ("distributed.client", "Client.collections_to_dsk"),
        ("dask._expr", "Expr.optimize"),
    ),
    "serialisation": (("distributed.client", "serialize"), ("distributed.protocol", "serialize")),
}
"""Of all releases that are supported."""

HAS_CLOCKS = hasattr(time, "pthread_getcpuclockid")

UNSAMPLED = "no phases of the scheduler: they are shares of what cputime or pyspy sampled"
NO_CLOCK = "no sending: this system has no clock for another thread's CPU time"


class PhasesKind:
    """CPU time of the client's threads, and shares of the scheduler's."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        self._control = scheduler.control
        self._thread = scheduler.client.sync(_thread)
        self._watch = Stopwatch(PLACES)
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._tasks = 0

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """The test's own thread, less what it optimises and serialises, constructs graphs."""
        tasks, before = self._control.call(facts.finished_tasks), self._clocks()
        try:
            with self._watch.on():
                yield
        finally:
            after = self._clocks()
            for name, clock in before.items():
                self._spent[name] += after[name] - clock
            self._tasks += self._control.call(facts.finished_tasks) - tasks

    def _clocks(self) -> dict[str, float]:
        """CPU time of this thread, and of the one in which the client has its event loop."""
        clocks = {"construction": time.thread_time()}
        if HAS_CLOCKS:
            clocks["sending"] = time.clock_gettime(time.pthread_getcpuclockid(self._thread))
        return clocks

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, and as one bar."""
        if self._tasks < 1:
            raise EvidenceUnavailableError("the scheduler finished no task of the test")
        timed = {name: self._watch.seconds[name] for name in PLACES}
        client = {**self._spent, **timed}
        # Of threads that the body started the stopwatch tells, too.
        client["construction"] = max(0.0, client["construction"] - sum(timed.values()))
        phases = phases_of(client, self._tasks, found)
        notes = [] if HAS_CLOCKS else [NO_CLOCK]
        notes += [] if phases.sampled_by else [UNSAMPLED]
        files = {"phases.json": as_json(phases), "phases.svg": draw_bar(bar_of(phases))}
        return Brought(files, tuple(notes))


async def _thread() -> int:
    return threading.get_ident()
