"""One profiled test from its plan to its record. Knows no pytest."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from pytest_schedprof import __version__
from pytest_schedprof.analysis.estimate import CONFIDENCE
from pytest_schedprof.assessment import Assessment, assess
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.errors import LimitError, as_own
from pytest_schedprof.gates.judge import describe
from pytest_schedprof.model.result import ClusterFacts, Environment, Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.recorder import Recorder
from pytest_schedprof.settings import Settings
from pytest_schedprof.storage.records import encode
from pytest_schedprof.storage.run_directory import write


@dataclass(frozen=True, slots=True)
class Plan:
    """How a test is to be profiled; made before it runs, so that mistakes show at once."""

    settings: Settings
    backends: tuple[Backend, ...]

    @property
    def takes(self) -> list[tuple[Backend, ...]]:
        """The backends of each run of the test's body.

        What does not disturb the scheduler records together, what does records alone; rounds
        take turns, so that what changes on the machine meanwhile meets all alike.
        """
        calm = tuple(backend for backend in self.backends if not backend.disturbs)
        alone = [(backend,) for backend in self.backends if backend.disturbs]
        return [take for _ in range(self.settings.rounds) for take in (calm, *alone) if take]


class Place(Protocol):
    """Where artifacts are kept: a run's directory, or one that a caller gave."""

    def prepare(self) -> None:
        """Raises ArtifactError if nothing can be kept."""

    def new_test(self, test_id: str) -> Path | None:
        """The directory of a test's artifacts, None if nobody wants them."""


def make_plan(settings: Settings, registry: BackendRegistry, run: Place) -> Plan:
    """Check everything that can be checked before the test runs.

    Raises:
        SettingsError: for a backend, option or limit that cannot be.
        ArtifactError: if artifacts cannot be kept.
    """
    registry.check(settings.backend)
    backends = tuple(
        registry.make(
            name,
            rate_hz=settings.rate,
            options=settings.options_of(name),
            patterns=[limit.pattern for limit in settings.limit if ":" in limit.pattern],
        )
        for name in settings.backend
    )
    _check_metrics(settings, backends)
    run.prepare()
    return Plan(settings, backends)


def _check_metrics(settings: Settings, backends: Sequence[Backend]) -> None:
    for limit in settings.limit:
        if not any(limit.metric in backend.metrics for backend in backends):
            raise LimitError(
                f"schedprof: limit {str(limit)!r} needs a backend that measures "
                f"{limit.metric!r}; {', '.join(settings.backend)} cannot"
            )


NOTHING = Assessment((), ())


@dataclass(slots=True)
class ProfiledTest:
    """A test while it is profiled."""

    test_id: str
    plan: Plan
    run: Place
    scheduler: SchedulerUnderTest
    recorder: Recorder = field(init=False)
    directory: Path | None = None
    assessment: Assessment = NOTHING
    _started_at: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            self.scheduler.control,
            self.plan.backends,
            self.plan.settings.timeout,
            death=self.scheduler.cluster.death,
        )
        self.scheduler.window = self.recorder.measure

    def assess(self) -> None:
        """Store and judge what was recorded; never raises."""
        self.scheduler.window = nullcontext  # a `measure` in a teardown is no part of the test
        try:
            self.directory = self.run.new_test(self.test_id)
            self.assessment = assess(self.recorder, self.plan.settings.limit, self.directory)
        except Exception as error:
            self.assessment = Assessment((), (*self.recorder.errors, as_own(error)))

    def complaint(self) -> str | None:
        """Why a test that passed must fail after all: trouble, or limits; None if it need not."""
        return "\n".join([*self.assessment.troubles, *self.broken()]) or None

    def broken(self) -> list[str]:
        """A line for each limit that makes the test fail."""
        failing = {Verdict.FAIL, *([Verdict.INCONCLUSIVE] if self.plan.settings.strict else [])}
        return [
            f"schedprof: limit {'broken' if limit.verdict is Verdict.FAIL else 'inconclusive'}: "
            f"{describe(limit)}; see {self._place(result.artifacts)}"
            for result in self.assessment.backends
            for limit in result.limits
            if limit.verdict in failing
        ]

    def _place(self, artifacts: Sequence[str]) -> str:
        return str(self.directory / artifacts[0]) if self.directory and artifacts else "no artifact"

    def conclude(self, outcome: str) -> Result:
        """Write the record, now that the test's outcome is known."""
        result = self.record(outcome)
        self.keep(result)
        return result

    def record(self, outcome: str) -> Result:
        """What became of the test and of its profiling."""
        return Result(
            test_id=self.test_id,
            outcome=outcome,
            started_at=datetime.fromtimestamp(self._started_at, timezone.utc).isoformat(),
            cluster=_cluster(self.scheduler),
            environment=_environment(self.scheduler.description),
            confidence=CONFIDENCE,
            schedprof_version=__version__,
            backends=self.assessment.backends,
            troubles=self.assessment.troubles,
        )

    def keep(self, result: Result) -> None:
        """Write the record beside the artifacts.

        Raises:
            ArtifactError: if it cannot be written.
        """
        if self.directory is not None:
            write(self.directory / "result.json", encode(result))


def _cluster(scheduler: SchedulerUnderTest) -> ClusterFacts:
    description = scheduler.description
    return ClusterFacts(
        kind=scheduler.cluster.kind,
        address=scheduler.address,
        workers=len(description["workers"]),
        threads=description["threads"],
    )


def _environment(description: dict[str, Any]) -> Environment:
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        machine=platform.machine(),
        cpu_count=os.cpu_count() or 1,
        scheduler_python=description["python"],
        scheduler_platform=description["platform"],
        versions=description["versions"],
    )
