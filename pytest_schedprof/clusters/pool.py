"""The session's clusters: one at a time, kept for as long as tests ask for the same."""

from __future__ import annotations

from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.clusters.docker import DockerCluster
from pytest_schedprof.clusters.local import LocalCluster
from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.errors import SettingsError

OWN: dict[str, type[OwnCluster]] = {"local": LocalCluster, "simulated": SimulatedCluster}


class ClusterPool:
    """Starts a cluster when first asked; an idle second one would be noise for the first."""

    def __init__(self) -> None:
        self._spec: ClusterSpec | None = None
        self._cluster: Cluster | None = None

    def get(self, spec: ClusterSpec, *, timeout_s: float) -> Cluster:
        """The running cluster if it is what is asked for and whole, else a new one."""
        if self._cluster is None or spec != self._spec or not self._cluster.is_whole():
            self.close()
            self._cluster = start(spec, timeout_s=timeout_s)
            self._spec = spec
        return self._cluster

    def close(self) -> None:
        """End the running cluster, if any."""
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.close()


def start(spec: ClusterSpec, *, timeout_s: float) -> Cluster:
    """A cluster by its specification; settings have made sure that the kind is known."""
    if spec.interpreter and spec.kind not in OWN:
        raise SettingsError(
            f"schedprof: cluster {spec.kind!r} has an interpreter of its own; {spec.interpreter!r} "
            f"can run cluster {' or '.join(map(repr, OWN))}"
        )
    if spec.kind == DockerCluster.kind:
        return DockerCluster(timeout_s=timeout_s, options=dict(spec.options))
    if spec.kind not in OWN:
        return AttachedCluster(spec.kind)
    return OWN[spec.kind](
        spec.workers,
        timeout_s=timeout_s,
        threads=spec.threads,
        options=dict(spec.options),
        interpreter=spec.interpreter,
    )
