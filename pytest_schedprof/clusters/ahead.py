"""A cluster that starts while another one is still in use, for the test that comes next."""

from __future__ import annotations

import json
import os
import sys

import dask.config

from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.options import EVENT_LOOP, config_of
from pytest_schedprof.clusters.own import PROVEN
from pytest_schedprof.clusters.virtual import VirtualCluster

MOST_WORKERS = 20_000
"""A larger cluster takes gigabytes, which this machine may not have twice."""


class Ahead:
    """Holds at most one cluster, which has been told what to run, but not waited for."""

    def __init__(self) -> None:
        self._begun: tuple[ClusterSpec, str, VirtualCluster] | None = None

    def begin(self, spec: ClusterSpec) -> None:
        """Begin to start a cluster, if it is of a kind that each test has its own of."""
        self.close()
        if _can_begin(spec):
            self._begun = spec, inherited(), VirtualCluster.begin(spec)

    def take(self, spec: ClusterSpec) -> VirtualCluster | None:
        """Return the cluster if one that began now would be the same, else end it."""
        begun, self._begun = self._begun, None
        if begun is None:
            return None
        *situation, cluster = begun
        if situation == [spec, inherited()]:
            return cluster
        cluster.close()
        return None

    def close(self) -> None:
        """End the cluster that nobody took."""
        if self._begun is not None:
            (_, _, cluster), self._begun = self._begun, None
            cluster.close()


def _can_begin(spec: ClusterSpec) -> bool:
    is_proven = spec.interpreter in {"", *PROVEN}  # a trial of another one comes first
    return (
        spec.kind == VirtualCluster.kind
        and spec.workers <= MOST_WORKERS
        and is_proven
        and EVENT_LOOP not in config_of(dict(spec.options))
    )


def inherited() -> str:
    """Return what a child takes over from this process, in a form that can be compared."""
    environment = {**os.environ, "PYTEST_CURRENT_TEST": ""}
    config = dask.config.serialize(dask.config.global_config)
    return json.dumps([os.getcwd(), environment, sys.path, config])
