"""One profiled test from its plan to its record. Knows no pytest."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from dask.callbacks import Callback

from pytest_schedprof import __version__
from pytest_schedprof.analysis.student import CONFIDENCE
from pytest_schedprof.assessment import Assessment, Recall, assess
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.words import regressions, undecided
from pytest_schedprof.errors import as_own
from pytest_schedprof.evidence.kinds import gather
from pytest_schedprof.gates.judge import NO_BASELINE, describe
from pytest_schedprof.gates.reference import InTurns, Reference
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.plan import Place, Plan, Take
from pytest_schedprof.recorder import Recorder
from pytest_schedprof.reports.progress import Progress
from pytest_schedprof.sides import AGAINST, NULL, Side
from pytest_schedprof.storage.records import encode
from pytest_schedprof.storage.run_directory import write
from pytest_schedprof.turns import Turns

NOTHING = Assessment((), ())


@dataclass(slots=True)
class ProfiledTest:
    """A test while it is profiled."""

    test_id: str
    plan: Plan
    run: Place
    scheduler: SchedulerUnderTest | InProcess
    rivals: Mapping[str, SchedulerUnderTest] = field(default_factory=dict)
    """Schedulers on which the body runs in turns with this one, by the names of their sides."""
    callbacks: Sequence[Callback] = ()
    """For dask's local schedulers."""
    directory: Path | None = None
    assessment: Assessment = NOTHING
    comparisons: tuple[Comparison, ...] = ()
    null: tuple[Comparison, ...] = ()
    _here: Side = field(init=False)
    _turns: Turns = field(init=False)
    _is_assessed: bool = False
    _started_at: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self._here = self._side(self.scheduler)
        names = {AGAINST: self.plan.settings.against or AGAINST, NULL: "the null arm"}
        others = {name: self._side(each, names[name]) for name, each in self.rivals.items()}
        self._turns = Turns(self.plan, self._here, others, self._record_of)

    def _side(self, scheduler: SchedulerUnderTest | InProcess, name: str = "") -> Side:
        kinds = self.plan.settings.evidence
        gathering = gather(kinds, scheduler, self.test_id, self.callbacks)
        return Side(scheduler, self.plan, gathering, name)

    @property
    def recorder(self) -> Recorder:
        """Of the scheduler under test."""
        return self._here.recorder

    def takes(self) -> Iterator[tuple[Take, Side]]:
        """Each run of the body, with the side that it is for."""
        if self._turns:
            yield from self._turns.takes(self._compared)
        else:
            yield from ((take, self._here) for take in self.plan.takes)

    def once(self) -> AbstractContextManager[None]:
        """Of a body that runs but once: all backends observe it side by side."""
        return self._here.run(Take(0, self.plan.backends, has_evidence=True))

    @property
    def is_in_process(self) -> bool:
        """Whether the scheduler lives where the test does."""
        return isinstance(self.scheduler, InProcess)

    def progress(self) -> Progress:
        """Asked between two runs of the body."""
        rounds = [each for side in self._turns.sides for each in side.recorder.rounds]
        return Progress(
            done=len(rounds),
            runs=0 if self._turns else len(self.plan.takes),
            tasks=sum(segment.facts.tasks for each in rounds for segment in each),
            elapsed_s=time.time() - self._started_at,
            budget_s=self.plan.settings.budget,
        )

    def break_off(self) -> None:
        """The test is interrupted: what was measured is kept."""
        self._turns.break_off()

    def assess(self) -> None:
        """Store and judge what was recorded, once; never raises."""
        if self._is_assessed:
            return
        self._is_assessed = True
        for side in self._turns.sides:
            side.scheduler.window = nullcontext  # in a teardown it is no part of the test
        try:
            self.recorder.errors.extend(self.scheduler.leave(self.plan.backends))
            self.directory = self.run.new_test(self.test_id)
            self._assess()
        except Exception as error:
            self.assessment = Assessment((), (*self.recorder.errors, as_own(error)))
        finally:  # in any case: its instruments are at work on the schedulers
            self._here.gathering.keep(self.directory, self.assessment.backends)
            for side in self._turns.sides:
                side.gathering.keep(None, ())

    def _assess(self) -> None:
        """The other sides first: limits may be relative to what is measured there."""
        troubles = self._turns.store(self.directory)
        reference = self._turns.reference(AGAINST) if self._turns else self.plan.reference
        seen = assess(self.recorder, self.plan.limits, self.directory, self._recall(reference))
        self.assessment = Assessment(seen.backends, (*seen.errors, *troubles))
        if self.assessment.errors:
            return
        if reference is not None:
            self.comparisons = self._compared(reference, seen)
        if (null := self._turns.null) is not None:
            self.null = self._compared(null, seen)

    def _recall(self, reference: Reference | InTurns | None) -> Recall:
        """Where to look for what the test cost before."""
        shell = self.record("")
        if reference is None:
            return lambda result: NO_BASELINE
        return lambda result: reference.before(Measurement(shell, result))

    def _compared(self, reference: Reference | InTurns, seen: Assessment) -> tuple[Comparison, ...]:
        shell, is_binding = self.record(""), not self.plan.has_own_measure
        return tuple(
            comparison
            for backend in seen.backends
            for comparison in reference.compare(Measurement(shell, backend), is_binding=is_binding)
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
        name = self.baseline
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

    @property
    def baseline(self) -> str:
        """What the test is compared with, empty if with nothing."""
        if self._turns:
            return str(self.plan.settings.against)
        return self.plan.reference.name if self.plan.reference else ""

    def record(self, outcome: str) -> Result:
        """What became of the test and of its profiling."""
        self._here.assessment = self.assessment
        return replace(
            self._record_of(self._here),
            outcome=outcome,
            unjudged=self.plan.unjudged,
            baseline=self.baseline,
            comparisons=self.comparisons,
            null=self.null,
        )

    def _record_of(self, side: Side) -> Result:
        return Result(
            test_id=self.test_id,
            outcome="passed",
            started_at=datetime.fromtimestamp(self._started_at, timezone.utc).isoformat(),
            cluster=side.cluster,
            environment=side.environment,
            confidence=CONFIDENCE,
            schedprof_version=__version__,
            backends=side.assessment.backends,
            troubles=side.assessment.troubles,
            evidence=side.gathering.kept or (),
        )

    def keep(self, result: Result) -> None:
        """Write the record beside the artifacts.

        Raises:
            ArtifactError: if it cannot be written.
        """
        if self.directory is not None:
            write(self.directory / "result.json", encode(result))
