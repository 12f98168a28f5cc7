"""One profiled test from its plan to its record. Knows no pytest.

The path of a test through this room:

1. `plan.py` checks the settings and says which backends record which runs of the body.
2. `Schedule` yields each run with the side (`sides.py`) that it runs on.
3. `recorder.py` starts and stops the backends around a run and keeps their raw bytes.
4. `judging.py` has them stored, read and judged (`assessment.py`), and compares the results.
5. `ProfiledTest.final` makes the record when the test's outcome is known, and `conclude` writes
   it. Until then the record says that the test did not end.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from pathlib import Path
from time import time as now  # tests may leave `time.time` patched

from dask.callbacks import Callback
from msgspec.structs import replace

from pytest_schedprof.agent.names import sources_of
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.errors import (
    NoSchedulerError,
    RecordingError,
    SchedprofError,
    SchedulerLostError,
    as_own,
    without_secrets,
)
from pytest_schedprof.evidence.contract import ObservedTest
from pytest_schedprof.evidence.gathering import Gathering
from pytest_schedprof.judge.estimate import ALPHA
from pytest_schedprof.measuring.assessment import Assessment, keep_record, keep_rounds
from pytest_schedprof.measuring.judging import complaint, is_decided, judge_test
from pytest_schedprof.measuring.plan import ArtifactStore, BodyRun, Plan
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.measuring.sides import Side, Sides
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.profile import Function, is_of_library
from pytest_schedprof.model.result import OWN_VIRTUAL, BackendResult, Result
from pytest_schedprof.report.changes import NEWS
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.run_directory import AGAINST, make_directory, write
from pytest_schedprof.store.sources import add_sources, read_sources


class Schedule:
    """The runs of a test's body."""

    def __init__(self, plan: Plan, sides: Sides) -> None:
        self.sides = sides
        self.alpha = ALPHA
        """The rate of false alarms of a comparison: the interim checks share it."""
        self._plan = plan
        self._whole_pairs = 0
        """Rounds that every side has completed."""

    def body_runs(self) -> Generator[tuple[BodyRun, Side]]:
        if self.sides.against:
            yield from self._in_turns(self.sides.against)
        else:
            yield from ((body_run, self.sides.tested) for body_run in self._plan.body_runs)

    def once(self) -> AbstractContextManager[None]:
        """Record a body that can run only once: with all backends side by side."""
        return self.sides.tested.run(BodyRun(0, self._plan.backends, has_evidence=True))

    def break_off(self) -> None:
        """Discard rounds that not every side completed, because the test is interrupted."""
        whole = self._whole_pairs * len(self._plan.runs_of_a_round)
        for side in self.sides.all if whole else ():
            del side.recorder.rounds[whole:]

    def _in_turns(self, against: Side) -> Iterator[tuple[BodyRun, Side]]:
        start = time.monotonic()
        for pair in count(1):
            for side in self._plan.interim_checks.order(self.sides.all, pair):
                yield from ((body_run, side) for body_run in self._plan.runs_of_a_round)
            self._whole_pairs = pair
            if self._is_enough(pair, time.monotonic() - start, against):
                return

    def _is_enough(self, pairs: int, elapsed_s: float, against: Side) -> bool:
        """Whether more rounds would tell nothing, or there is no time for them."""
        checks = self._plan.interim_checks
        self.alpha = checks.alpha(pairs, elapsed_s)
        is_broken = any(side.recorder.errors for side in self.sides.all)
        if is_broken or not checks.has_time_for_more(pairs, elapsed_s):
            return True
        try:
            return checks.is_due(pairs) and is_decided(
                self._plan, self.sides.tested, against, self.alpha
            )
        except Exception as error:  # it must not look like a failure of the test's body
            against.recorder.errors.append(as_own(error))
            return True


NEGLIGIBLE = 0.001
"""Share of a function below which its source is not kept."""


def keep_sources(run: Path, sides: Sequence[Side]) -> None:
    """Ask each side's scheduler for sources that the run does not have yet.

    The figures are right without them, so a scheduler that is lost, or a full disk, is no error.
    """
    names = sorted({name for side in sides for name in _functions(side)})
    for side in sides:
        code = side.environment.code
        known = read_sources(Folder(str(run)), code)
        missing = [name for name in names if name not in known]
        if code and missing:
            with suppress(SchedprofError):
                texts = side.recorder.control.call(sources_of, missing)
                new = {name: Source(*texts.get(name, ("", 0, ""))) for name in missing}
                add_sources(run, code, new)


def _functions(side: Side) -> Iterator[Function]:
    """Yield the functions of a side's figures; Python's own library explains nothing."""
    for backend in side.assessment.backends:
        costs = backend.costs.functions if backend.costs else ()
        shares = backend.shares.functions if backend.shares else ()
        named = [cost.function for cost in costs]
        named += [share.function for share in shares if share.share.value >= NEGLIGIBLE]
        yield from (name for name in named if not is_of_library(name.partition(":")[0]))


UNREMARKABLE = ("passed", "skipped")


def is_remarkable(result: Result) -> bool:
    """Whether somebody may want to look at what was recorded of the test."""
    changes = (change for comparison in result.comparisons for change in comparison.changes)
    is_calm = result.outcome in UNREMARKABLE and result.verdict is Verdict.PASS
    return not is_calm or any(change.outcome in NEWS for change in changes)


def trimmed(result: Result, directory: Path, most: int) -> Result:
    """Remove the files of backends that are too large; return the record without them.

    The files of a backend belong together. Those of the smallest are kept first, since a trace of
    all calls takes a thousand times the room of all samples.

    Args:
        result: of one side of a test.
        directory: of its files.
        most: bytes that may be kept.
    """
    backends = {backend.backend: backend for backend in result.backends}
    sizes = {name: _size(backend, directory) for name, backend in backends.items()}
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        most -= size
        if most < 0 and size:
            for file in backends[name].artifacts:
                with suppress(OSError):  # what cannot be removed only takes room
                    (directory / file).unlink()
            backends[name] = replace(backends[name], artifacts=(), left_out=size)
    return replace(result, backends=tuple(backends.values()))


def _size(backend: BackendResult, directory: Path) -> int:
    total = 0
    for file in backend.artifacts:
        with suppress(OSError):
            total += (directory / file).stat().st_size
    return total


LOG_FILE = "scheduler.log"

UNFINISHED = "schedprof: the test did not end: its session was killed, or is still running"

INTERRUPTED = "schedprof: interrupted twice before the test was judged; its profiles are kept"


class ProfiledTest:
    """One attempt at a test: `schedule` runs it, `assess` judges it, `conclude` writes it."""

    def __init__(
        self,
        test_id: str,
        plan: Plan,
        store: ArtifactStore,
        scheduler: SchedulerUnderTest | InProcess,
        other_scheduler: SchedulerUnderTest | None = None,
        callbacks: Sequence[Callback] = (),
        must_have_scheduler: bool = True,
        code: Callable[[], str] = str,
    ) -> None:
        """Put a recorder on each scheduler.

        Args:
            other_scheduler: that which the body runs on in turns with this one, if any.
            callbacks: for dask's local schedulers.
            must_have_scheduler: whether it is an error if no scheduler runs in this process,
                although the body comes to its end.
            code: returns the source of the body, or nothing.
        """
        self.plan = plan
        self.directory: Path | None = None
        """Directory of the artifacts, once the test is assessed; None if nobody keeps them."""
        self.unprofiled = ""
        """Why there is nothing to judge or to keep, although that is no error; else empty."""
        self.refusal = ""
        """Why it ran as an ordinary test although it was to run in virtual time; else empty."""
        self.must_have_scheduler = must_have_scheduler
        """Whether it is an error of a body that came to its end if no scheduler ran."""
        self._test_id, self._started_at = test_id, now()
        self._store = store
        self._observed = ObservedTest(
            test_id,
            callbacks=callbacks,
            options={kind.name: plan.settings.options_of(kind.name, ()) for kind in plan.evidence},
            code=code,
            limits=[limit for limit in plan.settings.limit if limit.evidence],
        )
        self.is_assessed = False
        """Whether the runs of the body that are recorded are over."""
        self.is_over = False
        """Whether all are, so that its report comes next."""
        self.is_whole = False
        """Whether the body did all its work in each of them."""
        name = without_secrets(plan.settings.against or AGAINST)
        against = self._side(other_scheduler, name) if other_scheduler else None
        self._tested = self._side(scheduler)
        reference = None if against else plan.reference
        self._baseline = against.name if against else reference.name if reference else ""
        """Name of what the test is compared with; empty if it is compared with nothing."""
        self._commit = reference.commit if reference else ""
        self.schedule = Schedule(plan, Sides(self._tested, against))
        self._comparisons: tuple[Comparison, ...] = ()

    def _side(self, scheduler: SchedulerUnderTest | InProcess, name: str = "") -> Side:
        known = None if isinstance(scheduler, InProcess) else scheduler
        observed = replace(self._observed, known_scheduler=known)
        gathering = Gathering(self.plan.evidence, observed)
        return Side(self._test_id, self._started_at, self.plan, scheduler, gathering, name)

    @property
    def recorder(self) -> Recorder:
        """The recorder of the scheduler under test."""
        return self._tested.recorder

    @property
    def errors(self) -> tuple[SchedprofError, ...]:
        """What went wrong while the test was profiled and judged."""
        return self._tested.assessment.errors

    def complaint(self, command: str, start: Path) -> str | None:
        """Say why a test that passed must fail; None if it need not fail.

        Args:
            command: that runs the test again.
            start: the directory in which commands are given.
        """
        return complaint(self.record("passed"), self.directory, self.plan, command, start)

    def begin(self) -> None:
        """Store a record of a test that does not end: it stays if the session is killed."""
        with suppress(Exception):  # `assess` tells what is wrong with the directory
            self.directory = self._store.new_test(self._test_id)
            unfinished = replace(self.record("unfinished"), troubles=(UNFINISHED,))
            keep_record(self.directory, unfinished)

    def keep_rounds(self) -> None:
        """Store the files of the rounds so far, in case that the test does not end."""
        with suppress(Exception):  # `assess` tries again, and tells why they cannot be stored
            if self.directory is None:
                return
            keep_rounds(self.recorder, self.directory)
            if against := self.schedule.sides.against:
                make_directory(self.directory / AGAINST)
                keep_rounds(against.recorder, self.directory / AGAINST)

    def assess(self) -> None:
        """Store and judge what was recorded, once; raises nothing but an interruption.

        If a Ctrl-C or a test's timeout interrupts it, it begins again before it lets these pass: a
        test that was measured must not be lost while it is judged.
        """
        if self.is_assessed:
            return
        self.is_assessed = True
        for side in self.schedule.sides.all:
            side.scheduler.window = nullcontext  # a teardown may still call `measure()`
        left = self._leave()
        is_absent = any(isinstance(error, NoSchedulerError) for error in left)
        # A body that failed or skipped may have left before its scheduler began.
        if is_absent and not (self.must_have_scheduler and self.is_whole):
            return self._drop(str(left[0]))  # no error, and nothing to keep
        self.recorder.errors.extend(left)
        try:
            self._judge()
        except BaseException:
            self._fail(RecordingError(INTERRUPTED))
            self._judge()
            raise
        finally:
            self.end_evidence()

    def end_evidence(self) -> None:
        """End all instruments of evidence that are still at work on the schedulers."""
        for side in self.schedule.sides.all:
            side.gathering.keep(None, ())

    def refuse(self, why: str) -> None:
        """Drop what was recorded of a test that cannot run in virtual time."""
        self.is_assessed, self.refusal = True, why
        self._leave()
        self._drop(why)

    def _drop(self, why: str) -> None:
        self.unprofiled = why
        self.end_evidence()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def is_calm(self) -> bool:
        """Whether it makes its own cluster, and runs in virtual time."""
        return self._tested.scheduler.cluster.kind == OWN_VIRTUAL

    def _leave(self) -> list[SchedprofError]:
        """Return what was wrong with the scheduler, now that the test's body is over."""
        one_thread = [backend.name for backend in self.plan.backends if not backend.sees_threads]
        try:
            return self._tested.scheduler.leave(one_thread)
        except Exception as error:
            return [as_own(error)]

    def _judge(self) -> None:
        """Judge the test, and keep its evidence; errors become a part of the assessment."""
        if any(isinstance(error, NoSchedulerError) for error in self.recorder.errors):
            return self._fail()  # limits on a scheduler that never ran have no verdict
        sides, settings = self.schedule.sides, self.plan.settings
        try:
            if self.directory is None:
                self.directory = self._store.new_test(self._test_id)
            alpha = self.schedule.alpha
            self._comparisons = judge_test(
                self.plan, sides, alpha, self.directory, is_whole=self.is_whole
            )
            # Where nothing is compared, now or later, nobody explains sources.
            if self.directory and (settings.save or settings.compare or settings.against):
                keep_sources(self.directory.parents[1], sides.all)
            if any(isinstance(error, SchedulerLostError) for error in self.errors):
                self._keep_log()
        except Exception as error:
            self._fail(as_own(error))
        self._tested.gathering.keep(self.directory, self._tested.assessment.backends)

    def _fail(self, *errors: SchedprofError) -> None:
        """Judge the test by what went wrong alone."""
        self._tested.assessment = Assessment((), (*self.recorder.errors, *errors))

    def _keep_log(self) -> None:
        """Keep the log of a scheduler that was lost, which is deleted with its cluster."""
        assessment = self._tested.assessment
        log = self._tested.scheduler.cluster.log()
        if self.directory is None or not log:
            return
        try:
            write(self.directory / LOG_FILE, log)
        except SchedprofError as error:
            self._tested.assessment = replace(assessment, errors=(*assessment.errors, error))

    def record(self, outcome: str) -> Result:
        return replace(
            self._tested.record(),
            outcome=outcome,
            is_whole=self.is_whole,
            unjudged=self.plan.unjudged,
            baseline=self._baseline,
            baseline_commit=self._commit,
            comparisons=self._comparisons,
        )

    def final(self, outcome: str) -> Result:
        """Return the record now that the test's outcome is known, with the files that it keeps.

        Called once, because all others are removed.
        """
        result, most = self.record(outcome), self.plan.settings.keep
        if self.directory is None or most is None or is_remarkable(result):
            return result
        return trimmed(result, self.directory, most)

    def conclude(self, result: Result) -> None:
        """Write the final record, and if files of the other side are not kept, that side's too.

        Raises:
            ArtifactError: if one cannot be written.
        """
        directory, most = self.directory, self.plan.settings.keep
        against = self.schedule.sides.against
        if directory and against and most is not None and not is_remarkable(result):
            place = directory / AGAINST
            keep_record(place, trimmed(against.record(), place, most))
        keep_record(directory, result)
