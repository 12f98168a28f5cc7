"""What lives as long as one pytest session: the cluster and the line to it. Knows no pytest."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pytest_schedprof.clusters.attached import as_cluster
from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.options import check_cluster_options
from pytest_schedprof.clusters.pool import ClusterPool
from pytest_schedprof.clusters.reachability import open_line
from pytest_schedprof.clusters.under_test import (
    SchedulerUnderTest,
    Surroundings,
    clean,
    look_around,
    open_scheduler,
)
from pytest_schedprof.errors import SchedprofError, SettingsError
from pytest_schedprof.settings import Settings

logger = logging.getLogger(__name__)

DEFAULT_WORKERS = {"local": 4, "simulated": 1000}


class ClusterSession:
    """The clusters of a session and the control line to the one in use."""

    def __init__(self, interpreter: str = "") -> None:
        self._interpreter = interpreter
        self._pool = ClusterPool()
        self._control: Control | None = None

    def cluster(self, settings: Settings) -> Cluster:
        """The cluster that the settings ask for, started if need be."""
        spec = replace(_spec(settings), interpreter=self._interpreter)
        return self._pool.get(spec, timeout_s=settings.timeout)

    @contextmanager
    def scheduler(self, value: object, settings: Settings) -> Iterator[SchedulerUnderTest]:
        """The scheduler of a cluster, for one test; afterwards nothing of the test is left."""
        cluster = as_cluster(value)
        _check_choice(cluster, settings)
        control = self._connect(cluster, settings.timeout)
        before = look_around(cluster, control)
        try:
            with open_scheduler(cluster, control) as scheduler:
                yield scheduler
        finally:
            self._leave(cluster, control, before)

    def close(self) -> None:
        """Hang up and end what was started."""
        self._hang_up()
        self._pool.close()

    def _connect(self, cluster: Cluster, timeout_s: float) -> Control:
        control = self._control
        if control is None or control.address != cluster.address or not control.is_up:
            self._hang_up()
            control = open_line(cluster.address, cluster.security, timeout_s)
            self._control = control
        return control

    def _hang_up(self) -> None:
        if self._control is not None:
            control, self._control = self._control, None
            control.close()

    def _leave(self, cluster: Cluster, control: Control, before: Surroundings) -> None:
        """A cluster that cannot be cleaned is ended, so that the next test gets a new one."""
        left: str | None = "its cleaning was interrupted"
        try:
            left = cluster.death() or clean(control, before)
        except SchedprofError as error:
            left = str(error)
        finally:
            if left:
                logger.info("schedprof: the next test gets a new cluster: %s", left)
                self.close()


def _spec(settings: Settings) -> ClusterSpec:
    if "://" in settings.cluster:
        return ClusterSpec(settings.cluster)
    options = dict(settings.cluster_option)  # of those given twice the last one counts
    check_cluster_options(settings.cluster, options)
    if settings.cluster not in DEFAULT_WORKERS:
        _check_workers(settings)
        return ClusterSpec(settings.cluster, options=tuple(sorted(options.items())))
    return ClusterSpec(
        settings.cluster,
        settings.workers or DEFAULT_WORKERS[settings.cluster],
        settings.threads,
        tuple(sorted(options.items())),
    )


def _check_workers(settings: Settings) -> None:
    """Of containers a compose file has as many as it says."""
    for name, value in (("workers", settings.workers), ("threads", settings.threads - 1)):
        if value:
            raise SettingsError(
                f"schedprof: {name} has no effect on cluster {settings.cluster!r}, whose workers "
                "are those of the compose file"
            )


def _check_choice(cluster: Cluster, settings: Settings) -> None:
    """What a marker asks for must not be silently ignored by somebody else's cluster."""
    asked = settings.chosen & {"workers", "threads", "cluster", "cluster_option"}
    if asked and not cluster.is_ours and "://" not in settings.cluster:
        raise SettingsError(
            f"schedprof: marker keyword {sorted(asked)[0]!r} has no effect here: the fixture "
            f"schedprof_cluster gives a cluster of its own at {cluster.address!r}"
        )
