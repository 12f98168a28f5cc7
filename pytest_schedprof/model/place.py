"""Where a test was measured: machine, versions, configuration, cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_schedprof.model.versions import differences


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a result was measured."""

    python: str
    platform: str
    machine: str
    cpu_count: int
    scheduler_python: str
    scheduler_platform: str
    versions: dict[str, str]
    """Versions of the packages that matter, on the scheduler."""
    test_versions: dict[str, str] = field(default_factory=dict)
    """The same where the test runs."""
    scheduler_machine: str = ""
    """Model and number of the processors on which the scheduler ran."""
    configuration: dict[str, str] = field(default_factory=dict)
    """Of the scheduler: what dask's configuration says of it."""

    @property
    def minor_python(self) -> str:
        """The scheduler's, as 3.11: bytecodes of others are others."""
        return ".".join(self.scheduler_python.split(".")[:2])

    @property
    def differences(self) -> tuple[str, ...]:
        """What is not the same on both sides, in words."""
        python = (self.python, self.scheduler_python)
        return differences(self.test_versions, self.versions, python=python)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster that ran the test."""

    kind: str
    address: str
    workers: int
    threads: int
