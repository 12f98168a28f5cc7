"""The environment of a measurement: machine, versions, configuration, cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

IN_PROCESS = "in-process"
"""Kind of the cluster whose scheduler is in the test's own process, with workers and clients."""


VIRTUAL = "virtual"
"""Kind of the cluster in virtual time, where each run of the same code is the same."""

MOST_NAMED = 3
"""Compiled modules that a note names."""

VALIDATED = "True"
"""Value of the option `validate` of a scheduler that checks its own state at each transition."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine, versions and configuration with which a result was measured."""

    python: str
    platform: str
    machine: str
    cpu_count: int
    scheduler_python: str
    scheduler_platform: str
    versions: dict[str, str]
    """Versions of the relevant packages on the scheduler."""
    test_versions: dict[str, str] = field(default_factory=dict)
    """Versions of the same packages in the test's process."""
    scheduler_machine: str = ""
    """Model and number of the processors on the scheduler's machine."""
    configuration: dict[str, str] = field(default_factory=dict)
    """Options of dask's configuration that concern the scheduler."""
    hash_seed: str = ""
    """Hash seed of the scheduler's interpreter, which orders sets of strings: a number, or
    `random`."""
    test_hash_seed: str = ""
    """The same of the test's process, which builds the graphs."""
    event_loop: str = ""
    """Package of the scheduler's event loop, as `asyncio`."""
    code: str = ""
    """Directories from which the scheduler loaded Python, distributed and dask. Kept sources are
    found by it."""
    compiled: tuple[str, ...] = ()
    """Modules of dask that are compiled on the scheduler: most backends see no function of them."""

    @property
    def minor_python(self) -> str:
        """The scheduler's minor version of Python, as 3.11; bytecodes depend on it."""
        return ".".join(self.scheduler_python.split(".")[:2])

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences between the test's process and the scheduler, in words."""
        python = (self.python, self.scheduler_python)
        return differences(self.test_versions, self.versions, python=python)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know: the differences, and what backends do not see."""
        return (*self.differences, *filter(None, [self._compiled_words]))

    @property
    def _compiled_words(self) -> str:
        if not self.compiled:
            return ""
        named = ", ".join(self.compiled[:MOST_NAMED])
        more = len(self.compiled) - MOST_NAMED
        return (
            f"compiled in the scheduler: {named}{f' and {more} more' if more > 0 else ''}; the "
            "functions of a compiled module give no events, and no profile of Python code has them"
        )


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster that ran the test."""

    kind: str
    address: str
    workers: int
    threads: int
    """Threads of all workers together."""
    options: dict[str, str] | None = None
    """Options of the cluster, as they were given; None in records without them."""

    @property
    def threads_per_worker(self) -> str:
        """Threads of each worker, or their mean."""
        return f"{self.threads / max(1, self.workers):g}"

    @property
    def size(self) -> str:
        """Kind and size in words."""
        return f"{self.kind}, {self.workers} workers, {self.threads} threads"


def differences(
    here: Mapping[str, str], there: Mapping[str, str], *, python: tuple[str, str]
) -> tuple[str, ...]:
    """Return the differences of two sides in words; `python` has both versions of Python."""
    sides = [("Python", *python)]
    sides += [(name, version, there[name]) for name, version in here.items() if name in there]
    return tuple(
        f"{name} is {one} where the tests run and {other} where the scheduler does"
        for name, one, other in sides
        if one != other
    )
