"""Measures the same work again and again: what a comparison on this machine can tell."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from statistics import fmean

from pytest_schedprof import __version__
from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.student import CONFIDENCE
from pytest_schedprof.assessment import assess
from pytest_schedprof.backends.contract import Backend, side_by_side
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.contract import Cluster
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import clean, look_around, open_scheduler
from pytest_schedprof.comparison.calibration import Repeats
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.policy import DEFAULT_POLICY
from pytest_schedprof.errors import RecordingError, SettingsError, together
from pytest_schedprof.model.calibration import Calibration
from pytest_schedprof.model.metric import METRICS, PERCENT
from pytest_schedprof.model.place import ClusterFacts
from pytest_schedprof.model.result import Result
from pytest_schedprof.recorder import Recorder, SegmentRecord
from pytest_schedprof.sides import environment_of
from pytest_schedprof.workloads import many_tiny_tasks

WORKLOAD = many_tiny_tasks
"""Of all shapes it keeps the scheduler busiest, while the client and workers need little."""

WORKERS = {"simulated": 16, "local": 4}
CLUSTERS = {"simulated": SimulatedCluster, "local": LocalCluster}

FEW_TASKS = 300
"""Of windows that warm up, and of those that count: each of them is exact, and takes long."""

BUSY_S = 1.0
"""CPU time of the scheduler in a window that samples, if there is time for WINDOWS of them."""

WINDOWS = 40
TURNS = MIN_ROUNDS
"""Windows of each sort on one cluster: together they are a measurement with rounds. More would say
less than more clusters do, for a process has quirks of its own (where its memory lies), which all
its windows share."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be measured."""

    backends: tuple[str, ...]
    seconds: float
    rate_hz: float
    cluster: str
    timeout_s: float

    @property
    def busy_s(self) -> float:
        """CPU time that a window shall take."""
        return min(BUSY_S, self.seconds / WINDOWS)


@dataclass(slots=True)
class _Take:
    """Backends that record together, and what they record."""

    backends: tuple[Backend, ...]
    tasks: int = 0
    """0 until it is known how long they take."""
    seconds: list[float] = field(default_factory=list)


def calibrate(wanted: Wanted) -> Calibration:
    """Measure; whatever is started for it is ended.

    Raises:
        SettingsError: for a backend that is unknown or measures nothing that is compared.
        SchedprofError: for one that does not work here.
    """
    takes = _takes(wanted)
    collected = _Collected()
    begun = time.monotonic()
    for number in count():
        elapsed = time.monotonic() - begun
        # Two, and more while there is time: what is compared are two of them.
        if number and number % 2 == 0 and elapsed * (number + 2) > wanted.seconds * number:
            break
        with _session(wanted) as session:
            session.run(takes, wanted.busy_s, begun + wanted.seconds * (number + 1) / 2)
            for take in takes:
                collected.add(session, take)
    return collected.calibration(wanted, takes)


def _takes(wanted: Wanted) -> list[_Take]:
    registry = BackendRegistry()
    registry.check(wanted.backends)
    backends = [registry.make(name, rate_hz=wanted.rate_hz, options={}) for name in wanted.backends]
    for backend in backends:
        if not any(
            METRICS[each].is_exact or METRICS[each].units is PERCENT for each in backend.metrics
        ):
            raise SettingsError(
                f"schedprof: backend {backend.name!r} measures nothing that is compared; give "
                "cputime, pyspy or counts"
            )
    return [_Take(each) for each in side_by_side(backends)]


@contextmanager
def _session(wanted: Wanted) -> Iterator[_Session]:
    """A cluster and the line to it."""
    cluster = CLUSTERS[wanted.cluster](WORKERS[wanted.cluster], timeout_s=wanted.timeout_s)
    try:
        with Control(cluster.address, timeout_s=wanted.timeout_s) as control:
            yield _Session(cluster, control, wanted.timeout_s)
    finally:
        cluster.close()


class _Session:
    """Windows on one cluster."""

    def __init__(self, cluster: Cluster, control: Control, timeout_s: float) -> None:
        self.cluster, self.control, self._timeout_s = cluster, control, timeout_s
        self._before = look_around(cluster, control)
        self.segments: dict[str, list[list[SegmentRecord]]] = defaultdict(list)
        """Of each backend, a list for each window."""
        with open_scheduler(cluster, control) as scheduler:
            self.description = scheduler.description

    def run(self, takes: Sequence[_Take], busy_s: float, deadline: float) -> None:
        """In turns, so that what changes meanwhile meets all alike; at least one of each."""
        for take in takes:
            ((first, *_),) = self._record(take, FEW_TASKS).rounds  # which warms up
            if not take.tasks:
                take.tasks = _tasks(take, busy_s / max(first.facts.cpu_seconds, 1e-3))
        for turn in range(TURNS):
            if turn and time.monotonic() > deadline:
                break
            for take in takes:
                self._keep(take)

    def _keep(self, take: _Take) -> None:
        begun = time.monotonic()
        recorder = self._record(take, take.tasks)
        take.seconds.append(time.monotonic() - begun)
        for backend in take.backends:
            self.segments[backend.name].append(recorder.rounds[0])

    def _record(self, take: _Take, tasks: int) -> Recorder:
        """One window. Its client is new, as a test's is."""
        recorder = Recorder(self.control, take.backends, self._timeout_s, death=self.cluster.death)
        with open_scheduler(self.cluster, self.control) as scheduler, recorder.round():
            if not recorder.errors:
                WORKLOAD(scheduler.client, tasks)
        if recorder.errors:
            raise together(recorder.errors)
        if left := clean(self.control, self._before):
            raise RecordingError(f"schedprof: after a window {left}; calibrate again")
        return recorder

    def measurements(self, backend: Backend, rounds: int) -> list[Measurement]:
        """Of so many windows each, as rounds; what is left over is left out."""
        found = self.segments[backend.name]
        starts = range(0, len(found) - rounds + 1, rounds)
        return [self._measurement(backend, found[start : start + rounds]) for start in starts]

    def _measurement(self, backend: Backend, rounds: list[list[SegmentRecord]]) -> Measurement:
        recorder = Recorder(self.control, [backend], self._timeout_s, rounds=rounds)
        assessment = assess(recorder, (), None)
        if assessment.errors:
            raise together(assessment.errors)
        return Measurement(self._shell(), assessment.backends[0])

    def _shell(self) -> Result:
        threads, workers = self.description["threads"], len(self.description["workers"])
        return Result(
            test_id="calibration",
            outcome="passed",
            started_at=datetime.now(timezone.utc).isoformat(),
            cluster=ClusterFacts(self.cluster.kind, self.cluster.address, workers, threads),
            environment=environment_of(self.description),
            confidence=CONFIDENCE,
            schedprof_version=__version__,
            backends=(),
        )


def _tasks(take: _Take, times: float) -> int:
    """Of a window that shall keep the scheduler so many times as busy as the first did."""
    if any(backend.disturbs for backend in take.backends):
        return FEW_TASKS
    return max(FEW_TASKS, int(FEW_TASKS * times))


class _Collected:
    """What all clusters brought, by backend."""

    def __init__(self) -> None:
        self._windows: dict[str, list[list[Measurement]]] = defaultdict(list)
        self._rounds: dict[str, list[list[Measurement]]] = defaultdict(list)

    def add(self, session: _Session, take: _Take) -> None:
        """Read what a cluster brought while it is there: it knows the names of its code."""
        for backend in take.backends:
            self._windows[backend.name].append(session.measurements(backend, 1))
            self._rounds[backend.name].append(session.measurements(backend, MIN_ROUNDS))

    def calibration(self, wanted: Wanted, takes: Sequence[_Take]) -> Calibration:
        """What it all says."""
        shell = self._shell(wanted)
        backends = []
        for take in takes:
            for backend in take.backends:
                windows, rounds = self._windows[backend.name], self._rounds[backend.name]
                repeats = Repeats(windows, rounds, fmean(take.seconds), wanted.seconds)
                backends.append(repeats.calibrated(shell, DEFAULT_POLICY))
        return replace(shell, backends=tuple(backends))

    def _shell(self, wanted: Wanted) -> Calibration:
        clusters = next(iter(self._windows.values()))
        first = clusters[0][0]
        environment = first.result.environment
        return Calibration(
            machine=first.machine,
            python=first.python,
            cluster=wanted.cluster,
            workers=WORKERS[wanted.cluster],
            workload=WORKLOAD.__name__,
            measured_at=datetime.now(timezone.utc).isoformat(),
            seconds=wanted.seconds,
            clusters=len(clusters),
            distributed=environment.versions.get("distributed", "") if environment else "",
            schedprof_version=__version__,
            backends=(),
        )
