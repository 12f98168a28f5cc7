"""One profiled test from its plan to its record. Knows no pytest."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path

from pytest_schedprof import __version__
from pytest_schedprof.analysis.estimate import CONFIDENCE
from pytest_schedprof.assessment import Assessment, Recall, assess
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.policy import DEFAULT_POLICY, Policy
from pytest_schedprof.comparison.words import regressions, undecided
from pytest_schedprof.errors import SchedprofError, as_own
from pytest_schedprof.gates.judge import NO_BASELINE, describe
from pytest_schedprof.gates.reference import InTurns, Reference
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.plan import Place, Plan, Take
from pytest_schedprof.recorder import Recorder
from pytest_schedprof.sides import AGAINST, NULL, Side
from pytest_schedprof.storage.records import encode
from pytest_schedprof.storage.run_directory import make_directory, write

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
    directory: Path | None = None
    assessment: Assessment = NOTHING
    comparisons: tuple[Comparison, ...] = ()
    null: tuple[Comparison, ...] = ()
    _here: Side = field(init=False)
    _others: dict[str, Side] = field(init=False)
    _is_assessed: bool = False
    _started_at: float = field(default_factory=time.time)
    _policy: Policy = DEFAULT_POLICY
    _whole_pairs: int = 0

    def __post_init__(self) -> None:
        self._here = Side(self.scheduler, self.plan)
        self._others = {
            name: Side(each, self.plan, self._name_of(name)) for name, each in self.rivals.items()
        }

    @property
    def recorder(self) -> Recorder:
        """Of the scheduler under test."""
        return self._here.recorder

    def takes(self) -> Iterator[tuple[Take, Side]]:
        """Each run of the body, with the side that it is for."""
        if not self._others:
            yield from ((take, self._here) for take in self.plan.takes)
            return
        begun = time.monotonic()
        # The side that came before comes first: A B, B A.
        sides = [*self._others.values(), self._here]
        for pair in count(1):
            for side in self.plan.turns.order(sides, pair):
                yield from ((take, side) for take in self.plan.takes_of_a_turn)
            self._whole_pairs = pair
            if self._is_enough(pair, time.monotonic() - begun):
                return

    def break_off(self) -> None:
        """Of a test that is interrupted, rounds count that both sides have had whole."""
        whole = self._whole_pairs * len(self.plan.takes_of_a_turn)
        for side in self._sides if self._others and whole else ():
            del side.recorder.rounds[whole:]

    def _is_enough(self, pairs: int, elapsed_s: float) -> bool:
        """Whether more rounds could tell more, and there is time for them."""
        turns = self.plan.turns
        self._policy = turns.policy(DEFAULT_POLICY, pairs, elapsed_s)
        if self._errors or not turns.has_time_for_more(pairs, elapsed_s):
            return True
        if not turns.is_look(pairs):
            return False
        side = self._others[AGAINST]
        side.assessment = assess(side.recorder, (), None)
        found = self._compared(self._in_turns(AGAINST), assess(self.recorder, (), None))
        return any(each.verdict is Verdict.FAIL for each in found) or all(
            each.verdict is Verdict.PASS for each in found
        )

    @property
    def _errors(self) -> list[SchedprofError]:
        return [error for side in self._sides for error in side.recorder.errors]

    @property
    def _sides(self) -> list[Side]:
        return [self._here, *self._others.values()]

    def assess(self) -> None:
        """Store and judge what was recorded, once; never raises."""
        if self._is_assessed:
            return
        self._is_assessed = True
        for side in self._sides:
            side.scheduler.window = nullcontext  # in a teardown it is no part of the test
        try:
            self.recorder.errors.extend(self.scheduler.leave(self.plan.backends))
            self.directory = self.run.new_test(self.test_id)
            self._assess()
        except Exception as error:
            self.assessment = Assessment((), (*self.recorder.errors, as_own(error)))

    def _assess(self) -> None:
        """The other sides first: limits may be relative to what is measured there."""
        troubles = []
        for name, side in self._others.items():
            troubles += self._store_other(name, side)
        reference = self._reference()
        self.assessment = assess(
            self.recorder, self.plan.limits, self.directory, self._recall(reference)
        )
        self.assessment = Assessment(self.assessment.backends, (*self.assessment.errors, *troubles))
        if reference is not None and not self.assessment.errors:
            self.comparisons = self._compared(reference, self.assessment)
        if NULL in self._others and not self.assessment.errors:
            self.null = self._compared(self._in_turns(NULL), self.assessment)

    def _store_other(self, name: str, side: Side) -> list[SchedprofError]:
        """Its files and its record, in a directory of its own beside ours."""
        directory = self.directory and self.directory / name
        if directory is not None:
            make_directory(directory)
        side.assessment = assess(side.recorder, (), directory)
        if directory is not None:
            write(directory / "result.json", encode(self._record_of(side, "passed")))
        return [_named(error, side.name) for error in side.assessment.errors]

    def _name_of(self, side: str) -> str:
        return self.plan.settings.against or side if side == AGAINST else "the null arm"

    def _reference(self) -> Reference | InTurns | None:
        return self._in_turns(AGAINST) if AGAINST in self._others else self.plan.reference

    def _in_turns(self, name: str) -> InTurns:
        side = self._others[name]
        return InTurns(side.name, self._record_of(side, "passed"), self._policy)

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
        if AGAINST in self._others:
            return self._others[AGAINST].name
        return self.plan.reference.name if self.plan.reference else ""

    def record(self, outcome: str) -> Result:
        """What became of the test and of its profiling."""
        self._here.assessment = self.assessment
        return replace(
            self._record_of(self._here, outcome),
            unjudged=self.plan.unjudged,
            baseline=self.baseline,
            comparisons=self.comparisons,
            null=self.null,
        )

    def _record_of(self, side: Side, outcome: str) -> Result:
        return Result(
            test_id=self.test_id,
            outcome=outcome,
            started_at=datetime.fromtimestamp(self._started_at, timezone.utc).isoformat(),
            cluster=side.cluster,
            environment=side.environment,
            confidence=CONFIDENCE,
            schedprof_version=__version__,
            backends=side.assessment.backends,
            troubles=side.assessment.troubles,
        )

    def keep(self, result: Result) -> None:
        """Write the record beside the artifacts.

        Raises:
            ArtifactError: if it cannot be written.
        """
        if self.directory is not None:
            write(self.directory / "result.json", encode(result))


def _named(error: SchedprofError, side: str) -> SchedprofError:
    """The error, with the side on which it was."""
    text = str(error).removeprefix("schedprof: ")
    named = SchedprofError(f"schedprof: {side}: {text}")
    named.__cause__ = error
    return named
