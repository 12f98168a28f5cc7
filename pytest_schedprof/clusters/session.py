"""The cluster of one pytest session and the control line to it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from pytest_schedprof.clusters import KINDS, class_of
from pytest_schedprof.clusters.attached import AttachedCluster, as_cluster
from pytest_schedprof.clusters.contract import Cluster, ClusterRequest, ClusterSpec
from pytest_schedprof.clusters.fork_server import SERVERS
from pytest_schedprof.clusters.options import check_cluster_options
from pytest_schedprof.clusters.under_test import (
    DYING_S,
    SchedulerUnderTest,
    Surroundings,
    clean,
    look_around,
    open_scheduler,
)
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import SchedprofError, SchedulerLostError, SettingsError
from pytest_schedprof.virtual.behaviour import RecordedTasks, read_trait


def start(spec: ClusterSpec, *, timeout_s: float) -> Cluster:
    """Start a cluster by its specification, whose kind the settings have checked."""
    elsewhere = [name for name, kind in KINDS.items() if kind.takes_interpreter]
    if spec.interpreter and spec.kind not in elsewhere:
        raise SettingsError(
            f"schedprof: cluster {spec.kind!r} has an interpreter of its own; {spec.interpreter!r} "
            f"can run cluster {' or '.join(map(repr, elsewhere))}"
        )
    made = class_of(spec.kind) if spec.kind in KINDS else AttachedCluster
    cluster = made.start(spec, timeout_s=timeout_s)
    cluster.options = dict(spec.options)
    return cluster


logger = logging.getLogger(__name__)


class ClusterSession:
    """Starts the clusters of a session, and connects to the one in use.

    At most one of them runs at a time: an idle second one would disturb measurements.
    """

    def __init__(self, interpreter: str = "") -> None:
        self._interpreter = interpreter
        self._spec: ClusterSpec | None = None
        self._cluster: Cluster | None = None
        self._control: Control | None = None
        self._is_open = True
        SERVERS.hold()

    def cluster(self, request: ClusterRequest) -> Cluster:
        """Return the requested cluster: the running one if it fits and is whole, else a new one."""
        spec = replace(_spec(request), interpreter=self._interpreter, launcher=request.launcher)
        return self._running(spec, request.timeout_s)

    def _running(self, spec: ClusterSpec, timeout_s: float) -> Cluster:
        if self._cluster is None or spec != self._spec or not self._cluster.is_whole():
            self._end()
            self._cluster = start(spec, timeout_s=timeout_s)
            self._spec = spec
        return self._cluster

    @contextmanager
    def scheduler(self, value: object, request: ClusterRequest) -> Iterator[SchedulerUnderTest]:
        """Yield the scheduler of a cluster to one test, and clean up after it."""
        cluster = as_cluster(value)
        _check_choice(cluster, request)
        try:
            control, before = self._reach(cluster, request)
        except SchedulerLostError:
            if cluster is not self._cluster or self._spec is None or not cluster.death(DYING_S):
                raise
            # It died since the test before: that is no fault of this one.
            cluster = self._running(self._spec, request.timeout_s)
            control, before = self._reach(cluster, request)
        try:
            with open_scheduler(cluster, control) as scheduler:
                yield scheduler
        finally:
            self._leave(cluster, control, before)

    def close(self) -> None:
        """Close the control line and the clusters that were started."""
        self._hang_up()
        try:
            self._end()
        finally:
            if self._is_open:
                self._is_open = False
                SERVERS.release()

    def _end(self) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.close()

    def _reach(self, cluster: Cluster, request: ClusterRequest) -> tuple[Control, Surroundings]:
        """Connect to a scheduler, and look at what is on it before the test."""
        cluster.watch(request.timeout_s)
        control = self._control
        if control is None or control.address != cluster.address or not control.is_up:
            self._hang_up()
            control = self._control = cluster.open_line(request.timeout_s)
        return control, look_around(cluster, control)

    def _hang_up(self) -> None:
        if self._control is not None:
            control, self._control = self._control, None
            control.close()

    def _leave(self, cluster: Cluster, control: Control, before: Surroundings) -> None:
        """Clean the cluster, or close it if that fails, so that the next test gets a new one."""
        left: str | None = "its cleaning was interrupted"
        try:
            if left := cluster.death():
                return
            # To clean a cluster for nobody would ask each of thousands of workers.
            left = clean(control, before) if cluster.is_whole() else "it serves no other test"
        except SchedprofError as error:
            left = str(error)
        finally:
            if left:
                logger.info("schedprof: the next test gets a new cluster: %s", left)
                self._hang_up()
                self._end()


def _spec(request: ClusterRequest) -> ClusterSpec:
    if "://" in request.kind:
        return ClusterSpec(request.kind)
    options = dict(request.options)  # if an option is given twice, the last one counts
    check_cluster_options(request.kind, options)
    default_workers = KINDS[request.kind].default_workers
    if default_workers is None:  # a compose file has its own
        for name, value in (("workers", request.workers), ("threads", (request.threads or 1) - 1)):
            if value:
                raise SettingsError(
                    f"schedprof: {name} has no effect on cluster {request.kind!r}, whose workers "
                    "are those of the compose file"
                )
        return ClusterSpec(request.kind, options=tuple(sorted(options.items())))
    workers, threads = _workforce(request, options, default_workers)
    return ClusterSpec(request.kind, workers, threads, tuple(sorted(options.items())))


def _workforce(
    request: ClusterRequest, options: Mapping[str, str], default_workers: int
) -> tuple[int, int]:
    """Return numbers of workers and threads: those given, recorded, or default."""
    if request.workers and request.threads:
        return request.workers, request.threads
    recorded = read_trait("workload", options) if "workload" in options else None
    if not isinstance(recorded, RecordedTasks):
        return request.workers or default_workers, request.threads or 1
    workforce = recorded.workforce
    workers = request.workers or len(workforce.first) or default_workers
    return workers, request.threads or workforce.threads


def _check_choice(cluster: Cluster, request: ClusterRequest) -> None:
    """Refuse settings of a marker that somebody else's cluster would silently ignore."""
    ignored = request.chosen & {"workers", "threads", "cluster", "cluster_option", "workload"}
    if ignored and not cluster.is_ours and "://" not in request.kind:
        raise SettingsError(
            f"schedprof: marker keyword {sorted(ignored)[0]!r} has no effect here: the fixture "
            f"schedprof_cluster gives a cluster of its own at {cluster.address!r}"
        )
