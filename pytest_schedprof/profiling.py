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
from typing import Any, NamedTuple, Protocol

from pytest_schedprof import __version__
from pytest_schedprof.agent import facts
from pytest_schedprof.analysis.estimate import CONFIDENCE
from pytest_schedprof.assessment import Assessment, Recall, assess
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.words import regressions, undecided
from pytest_schedprof.errors import LimitError, SettingsError, as_own
from pytest_schedprof.gates.judge import NO_BASELINE, describe
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.gates.reference import Reference
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.result import ClusterFacts, Environment, Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.recorder import Recorder
from pytest_schedprof.settings import ANY_BACKEND, Settings
from pytest_schedprof.storage.records import encode
from pytest_schedprof.storage.run_directory import write


@dataclass(frozen=True, slots=True)
class Plan:
    """How a test is to be profiled; made before it runs, so that mistakes show at once."""

    settings: Settings
    backends: tuple[Backend, ...]
    limits: tuple[Limit, ...] = ()
    unjudged: tuple[str, ...] = ()
    """Limits of the test that none of the backends which the run chose can judge, or that need a
    baseline where none was given."""
    reference: Reference | None = None
    """What the test is compared with."""

    @property
    def has_own_measure(self) -> bool:
        """Whether its limits say what a regression is."""
        return any(limit.is_relative for limit in self.limits)

    @property
    def takes(self) -> list[Take]:
        """The backends and the scale of each run of the test's body.

        What does not disturb the scheduler records together, what does records alone; rounds
        take turns, so that what changes on the machine meanwhile meets all alike.
        """
        calm = tuple(backend for backend in self.backends if not backend.disturbs)
        alone = [(backend,) for backend in self.backends if backend.disturbs]
        return [
            Take(scale, backends)
            for _ in range(self.settings.rounds)
            for scale in self.settings.scale or (0,)
            for backends in (calm, *alone)
            if backends
        ]


class Take(NamedTuple):
    """One run of the test's body."""

    scale: int
    """Size of the workload; 0 if the test has but one."""
    backends: tuple[Backend, ...]


class Place(Protocol):
    """Where artifacts are kept: a run's directory, or one that a caller gave."""

    def prepare(self) -> None:
        """Raises ArtifactError if nothing can be kept."""

    def new_test(self, test_id: str) -> Path | None:
        """The directory of a test's artifacts, None if nobody wants them."""


def make_plan(
    settings: Settings,
    registry: BackendRegistry,
    run: Place,
    reference: Reference | None = None,
) -> Plan:
    """Check everything that can be checked before the test runs.

    Raises:
        SettingsError: for a backend, option or limit that cannot be.
        ArtifactError: if artifacts cannot be kept.
    """
    owners = {owner for owner, _, _ in settings.option} - {ANY_BACKEND}
    registry.check([*settings.backend, *sorted(owners)])
    _check_shared_options(settings, registry)
    backends = tuple(_make(name, settings, registry) for name in settings.backend)
    measured = {metric for backend in backends for metric in backend.metrics}
    unjudged = [limit for limit in settings.limit if limit.measured not in measured]
    if unjudged and not settings.is_forced:
        raise LimitError(
            f"schedprof: limit {str(unjudged[0])!r} needs a backend that measures "
            f"{unjudged[0].measured!r}; {', '.join(settings.backend)} cannot"
        )
    _check_targets(settings, backends)
    run.prepare()
    if reference is None:
        unjudged += [each for each in settings.limit if each.is_relative and each not in unjudged]
    limits = tuple(limit for limit in settings.limit if limit not in unjudged)
    return Plan(settings, backends, limits, tuple(map(str, unjudged)), reference)


def _check_targets(settings: Settings, backends: Sequence[Backend]) -> None:
    """What none of the backends can observe is a mistake."""
    kinds = frozenset().union(*(backend.targets for backend in backends))
    for target in settings.targets:
        if (target if target in kinds else "workers") not in kinds:
            raise SettingsError(
                f"schedprof: target {target!r} cannot be observed by "
                f"{', '.join(settings.backend)}; pyspy, cputime and memray can"
            )


def _make(name: str, settings: Settings, registry: BackendRegistry) -> Backend:
    patterns = [limit.pattern for limit in settings.limit if ":" in limit.pattern]
    options = settings.options_of(name, registry.options_of(name))
    return registry.make(name, rate_hz=settings.rate, options=options, patterns=patterns)


def _check_shared_options(settings: Settings, registry: BackendRegistry) -> None:
    """One that no backend of the test knows is a mistake, unless the run chose other backends."""
    known = {option for name in settings.backend for option in registry.options_of(name)}
    shared = [option for owner, option, _ in settings.option if owner == ANY_BACKEND]
    for option in shared:
        if option not in known and not settings.is_forced:
            raise SettingsError(
                f"schedprof: backend {' or '.join(map(repr, settings.backend))} has no option "
                f"{option!r}; known: {', '.join(sorted(known)) or 'none'}"
            )


NOTHING = Assessment((), ())


@dataclass(slots=True)
class ProfiledTest:
    """A test while it is profiled."""

    test_id: str
    plan: Plan
    run: Place
    scheduler: SchedulerUnderTest | InProcess
    recorder: Recorder = field(init=False)
    directory: Path | None = None
    assessment: Assessment = NOTHING
    comparisons: tuple[Comparison, ...] = ()
    _environment: Environment = field(init=False)
    _is_assessed: bool = False
    _started_at: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        # Now, for a test may leave the modules patched that tell it.
        self._environment = _environment(self.scheduler.description)
        self.recorder = Recorder(
            self.scheduler.control,
            self.plan.backends,
            self.plan.settings.timeout,
            death=self.scheduler.cluster.death,
            targets=self.plan.settings.targets,
            is_shared=not self.scheduler.cluster.is_ours,
        )
        self.scheduler.window = self.recorder.measure

    def assess(self) -> None:
        """Store and judge what was recorded, once; never raises."""
        if self._is_assessed:
            return
        self._is_assessed = True
        self.scheduler.window = nullcontext  # a `measure` in a teardown is no part of the test
        try:
            self.recorder.errors.extend(self.scheduler.leave(self.plan.backends))
            self.directory = self.run.new_test(self.test_id)
            self.assessment = assess(
                self.recorder, self.plan.limits, self.directory, self._recall()
            )
            self.comparisons = self._compared()
        except Exception as error:
            self.assessment = Assessment((), (*self.recorder.errors, as_own(error)))

    def _recall(self) -> Recall:
        """Where to look for what the test cost before."""
        reference, shell = self.plan.reference, self.record("")
        if reference is None:
            return lambda result: NO_BASELINE
        return lambda result: reference.before(Measurement(shell, result))

    def _compared(self) -> tuple[Comparison, ...]:
        if self.plan.reference is None or self.assessment.errors:
            return ()
        return tuple(
            comparison
            for backend in self.assessment.backends
            for comparison in self.plan.reference.compare(
                Measurement(self.record(""), backend), is_binding=not self.plan.has_own_measure
            )
        )

    def complaint(self) -> str | None:
        """Why a test that passed must fail after all: trouble, or limits; None if it need not."""
        lines = [*self.assessment.troubles, *self.broken(), *self.regressed()]
        return "\n".join(lines) or None

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

    def regressed(self) -> list[str]:
        """A line for each backend by which the test costs more than in the baseline."""
        files = {backend.backend: backend.artifacts for backend in self.assessment.backends}
        name = self.plan.reference.name if self.plan.reference else ""
        lines = []
        for each in self.comparisons:
            place = self._place(files.get(each.backend, ()))
            if each.is_binding and (told := regressions(each)):
                lines.append(f"schedprof: regressed against {name!r}: {told}; see {place}")
            elif each.is_binding and self.plan.settings.strict and (told := undecided(each)):
                lines.append(f"schedprof: undecided against {name!r}: {told}; see {place}")
        return lines

    def _place(self, artifacts: Sequence[str]) -> str:
        if not (self.directory and artifacts):
            return "no artifact"
        path = str(self.directory / artifacts[0])
        return min(path, os.path.relpath(path), key=len)

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
            environment=self._environment,
            confidence=CONFIDENCE,
            schedprof_version=__version__,
            backends=self.assessment.backends,
            unjudged=self.plan.unjudged,
            troubles=self.assessment.troubles,
            baseline=self.plan.reference.name if self.plan.reference else "",
            comparisons=self.comparisons,
        )

    def keep(self, result: Result) -> None:
        """Write the record beside the artifacts.

        Raises:
            ArtifactError: if it cannot be written.
        """
        if self.directory is not None:
            write(self.directory / "result.json", encode(result))


def _cluster(scheduler: SchedulerUnderTest | InProcess) -> ClusterFacts:
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
        test_versions=facts.versions(),
        scheduler_machine=description["machine"],
        configuration=description["configuration"],
    )
