"""Calibrates a machine: measures the same work many times, to see how far figures scatter.

The result says how often comparisons on this machine give a false alarm, and how small a change
they can detect.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from statistics import fmean

from pytest_schedprof import __version__
from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.student import CONFIDENCE
from pytest_schedprof.backends.contract import Backend, side_by_side
from pytest_schedprof.backends.registry import find_backends
from pytest_schedprof.clusters.contract import Cluster
from pytest_schedprof.clusters.local import LocalProcesses
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import clean, look_around, open_scheduler
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.policy import DEFAULT_POLICY
from pytest_schedprof.comparison.repeats import Repeats
from pytest_schedprof.errors import RecordingError, SettingsError, together
from pytest_schedprof.measuring.assessment import assess
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.measuring.segments import SegmentRecord
from pytest_schedprof.measuring.sides import environment_of
from pytest_schedprof.model.backend import recommended
from pytest_schedprof.model.calibration import Calibration
from pytest_schedprof.model.environment import ClusterFacts
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.words import listed
from pytest_schedprof.remote.control import Control
from pytest_schedprof.workloads import many_tiny_tasks

WORKLOAD = many_tiny_tasks
"""The workload that keeps the scheduler busiest while client and workers do little."""

WORKERS = {"simulated": 16, "local": 4}
CLUSTERS = {"simulated": SimulatedCluster, "local": LocalProcesses}

FEW_TASKS = 300
"""Tasks of windows that warm up, and of windows of backends that disturb: these are exact with few
tasks, and slow."""

BUSY_S = 1.0
"""CPU time of the scheduler in a sampled window, if there is time for WINDOWS of them."""

WINDOWS = 40
"""Sampled windows that the whole calibration aims at."""

WINDOWS_ON_A_CLUSTER = MIN_ROUNDS
"""Windows of each group of backends on one cluster: together they are a measurement with rounds.
More of them would tell less than more clusters do, because all windows of one process share its
quirks, such as its memory layout."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure, and for how long."""

    backends: tuple[str, ...]
    seconds: float
    rate_hz: float
    cluster: str
    timeout_s: float

    @property
    def busy_s(self) -> float:
        """CPU time that a sampled window aims at."""
        return min(BUSY_S, self.seconds / WINDOWS)


@dataclass(slots=True)
class _Group:
    """Backends that record side by side, and the size of their windows."""

    backends: tuple[Backend, ...]
    tasks: int = 0
    """Tasks of a window; 0 until the first warm-up has shown how long tasks take."""
    seconds: list[float] = field(default_factory=list)
    """Duration of each window."""


def calibrate(wanted: Wanted) -> Calibration:
    """Measure on one cluster after the other until the time is spent.

    Raises:
        SettingsError: for a backend that is unknown or measures nothing that is compared.
        SchedprofError: for a backend that does not work here.
    """
    groups = _groups(wanted)
    collected = _Collected()
    begun = time.monotonic()
    for number in count():
        elapsed = time.monotonic() - begun
        # An even number of clusters, at least two: comparisons take them in pairs.
        if number and number % 2 == 0 and elapsed * (number + 2) > wanted.seconds * number:
            break
        with _session(wanted) as session:
            session.run(groups, wanted.busy_s, begun + wanted.seconds * (number + 1) / 2)
            for group in groups:
                collected.add(session, group)
    return collected.calibration(wanted, groups)


def _groups(wanted: Wanted) -> list[_Group]:
    registry = find_backends()
    registry.check(wanted.backends)
    backends = [registry.make(name, rate_hz=wanted.rate_hz, options={}) for name in wanted.backends]
    for backend in backends:
        if not _is_compared(backend.metrics):
            others = [each for each in registry.facts.values() if _is_compared(each.measures)]
            raise SettingsError(
                f"schedprof: backend {backend.name!r} measures nothing that can be compared; use "
                f"{listed(recommended(others), 'or')}"
            )
    return [_Group(each) for each in side_by_side(backends)]


def _is_compared(metrics: Iterable[str]) -> bool:
    """Whether comparisons look at one of these metrics of a backend."""
    return any(METRICS[each].is_exact or METRICS[each].is_sampled for each in metrics)


@contextmanager
def _session(wanted: Wanted) -> Iterator[_Session]:
    """Start a cluster and a control line to it; end both afterwards."""
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
        """For each backend a list of windows, each a list of segments."""
        with open_scheduler(cluster, control) as scheduler:
            self.description = scheduler.description

    def run(self, groups: Sequence[_Group], busy_s: float, deadline: float) -> None:
        """Record windows of each group in turns, so that a change of load affects all alike.

        Each group gets one window even after the deadline.
        """
        for group in groups:
            ((first, *_),) = self._record(group, FEW_TASKS).rounds  # warms up
            if not group.tasks:
                group.tasks = _tasks(group, busy_s / max(first.facts.cpu_seconds, 1e-3))
        for number in range(WINDOWS_ON_A_CLUSTER):
            if number and time.monotonic() > deadline:
                break
            for group in groups:
                self._keep(group)

    def _keep(self, group: _Group) -> None:
        begun = time.monotonic()
        recorder = self._record(group, group.tasks)
        group.seconds.append(time.monotonic() - begun)
        for backend in group.backends:
            self.segments[backend.name].append(recorder.rounds[0])

    def _record(self, group: _Group, tasks: int) -> Recorder:
        """Record one window with a new client, as each test has."""
        recorder = Recorder(self.control, group.backends, self._timeout_s, death=self.cluster.death)
        with open_scheduler(self.cluster, self.control) as scheduler, recorder.round():
            if not recorder.errors:
                WORKLOAD(scheduler.client, tasks)
        if recorder.errors:
            raise together(recorder.errors)
        if left := clean(self.control, self._before):
            raise RecordingError(f"schedprof: after a window {left}; run calibrate again")
        return recorder

    def measurements(self, backend: Backend, rounds: int) -> list[Measurement]:
        """Group windows into measurements of so many rounds; drop the remainder."""
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


def _tasks(group: _Group, times: float) -> int:
    """Return the tasks of a window that keeps the scheduler so many times as busy as the first."""
    if any(backend.disturbs for backend in group.backends):
        return FEW_TASKS
    return max(FEW_TASKS, int(FEW_TASKS * times))


class _Collected:
    """Measurements of all clusters, by backend."""

    def __init__(self) -> None:
        self._windows: dict[str, list[list[Measurement]]] = defaultdict(list)
        self._rounds: dict[str, list[list[Measurement]]] = defaultdict(list)

    def add(self, session: _Session, group: _Group) -> None:
        """Read a cluster's profiles while it lives: its scheduler knows the names of its code."""
        for backend in group.backends:
            self._windows[backend.name].append(session.measurements(backend, 1))
            self._rounds[backend.name].append(session.measurements(backend, MIN_ROUNDS))

    def calibration(self, wanted: Wanted, groups: Sequence[_Group]) -> Calibration:
        """Return the calibration of every backend."""
        shell = self._shell(wanted)
        backends = []
        for group in groups:
            for backend in group.backends:
                windows, rounds = self._windows[backend.name], self._rounds[backend.name]
                repeats = Repeats(windows, rounds, fmean(group.seconds), wanted.seconds)
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
