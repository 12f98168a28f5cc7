"""Clusters whose scheduler is profiled, and the one list of kinds that can be started.

The settings import this module at every start of pytest, so it imports nothing, and describes kinds
by a plain class: a named tuple or a dataclass takes half a millisecond to create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_schedprof.clusters.contract import Cluster


class ClusterKind:
    """A kind of cluster that can be started here; an address is none."""

    def __init__(
        self,
        place: str,
        description: str,
        options: tuple[str, ...],
        further_options: str = "",
        default_workers: int | None = None,
        takes_interpreter: bool = False,
    ) -> None:
        self.place = place
        """Where its class is, as `module:Class`."""
        self.description = description
        """What it consists of, for the help of the option."""
        self.options = options
        """Names that `--schedprof-cluster-option` takes: `config.*` are options of dask, `worker.*`
        keywords of `distributed.Worker`."""
        self.further_options = further_options
        """A mapping whose keys are names of options too, as `module:NAME`."""
        self.default_workers = default_workers
        """Number of workers unless told otherwise; None if it cannot be chosen here."""
        self.takes_interpreter = takes_interpreter
        """Whether its processes can run on another interpreter, and several clusters at once."""


KINDS = {
    "local": ClusterKind(
        "pytest_schedprof.clusters.own:LocalProcesses",
        "a scheduler and workers in processes of their own",
        ("tls", "config.*", "worker.*"),
        default_workers=4,
        takes_interpreter=True,
    ),
    "simulated": ClusterKind(
        "pytest_schedprof.clusters.own:SimulatedCluster",
        "a real scheduler with thousands of hollow workers",
        ("tls", "config.*"),
        "pytest_schedprof.virtual.behaviour:TRAITS",
        default_workers=1000,
        takes_interpreter=True,
    ),
    "virtual": ClusterKind(
        "pytest_schedprof.clusters.virtual:VirtualCluster",
        "a real scheduler with hollow workers in virtual time: exact and the same in each run",
        ("config.*",),
        "pytest_schedprof.virtual.behaviour:VIRTUAL_TRAITS",
        default_workers=1000,
        takes_interpreter=True,
    ),
    "docker": ClusterKind(
        "pytest_schedprof.clusters.docker:DockerCluster",
        "a compose project",
        ("compose_file", "service", "port", "tls", "config.*"),
    ),
}
"""Every kind by its name; the first one is the default."""

DEFAULT = next(iter(KINDS))


def class_of(name: str) -> type[Cluster]:
    from pkgutil import resolve_name

    cluster: type[Cluster] = resolve_name(KINDS[name].place)
    return cluster


def option_names(name: str) -> tuple[str, ...]:
    """Return the names of all options that a kind takes; none for a kind that is not known."""
    from pkgutil import resolve_name

    kind = KINDS.get(name)
    if kind is None:
        return ()
    further = resolve_name(kind.further_options) if kind.further_options else ()
    return (*kind.options, *further)
