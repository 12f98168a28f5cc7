"""The session's cluster: one at a time, kept as long as tests ask for the same one."""

from __future__ import annotations

from pytest_schedprof.clusters import KINDS, class_of
from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.clusters.forking import SERVERS
from pytest_schedprof.errors import SettingsError

DYING_S = 2.0
"""How long a scheduler that hung up may take to be seen dead."""


class ClusterPool:
    """Holds at most one running cluster: an idle second one would disturb measurements."""

    def __init__(self) -> None:
        self._spec: ClusterSpec | None = None
        self._cluster: Cluster | None = None
        self._is_open = True
        SERVERS.hold()

    def get(self, spec: ClusterSpec, *, timeout_s: float) -> Cluster:
        """Return the running cluster if it fits the specification and is whole, else a new one."""
        if self._cluster is None or spec != self._spec or not self._cluster.is_whole():
            self.end()
            self._cluster = start(spec, timeout_s=timeout_s)
            self._spec = spec
        return self._cluster

    def replacement(self, cluster: Cluster, *, timeout_s: float) -> Cluster | None:
        """Return a new cluster for a dead one of this pool; None if it is none, or lives."""
        if cluster is not self._cluster or self._spec is None or not cluster.death(DYING_S):
            return None
        return self.get(self._spec, timeout_s=timeout_s)

    def close(self) -> None:
        """End the running cluster, and hold the fork servers no longer."""
        self.end()
        if self._is_open:
            self._is_open = False
            SERVERS.release()

    def end(self) -> None:
        """End the running cluster, if any."""
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.close()


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
