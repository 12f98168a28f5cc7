"""From a recorder's bytes to results: each backend's profiles are kept, read and judged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pytest_schedprof.agent import names
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.control.control import Control, Target
from pytest_schedprof.errors import LimitError, SchedprofError, SchedulerLostError, as_own
from pytest_schedprof.judge.costs import Costs, Unit, unit_of
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.phases import ClientCosts
from pytest_schedprof.judge.reference import InTurns, Reference
from pytest_schedprof.judge.shares import Shares, counted_by_span, sampled_by_span, shares_of
from pytest_schedprof.judge.verdicts import Baseline, Measurements, judge
from pytest_schedprof.measuring.recorder import Recorder, SegmentRecord
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.evidence import steps_named
from pytest_schedprof.model.limit import Limit, LimitResult
from pytest_schedprof.model.metric import HELD, INTAKE
from pytest_schedprof.model.profile import (
    CodeLocation,
    CostProfile,
    Function,
    Profile,
    SampleProfile,
    compile_pattern,
    has_wildcard,
)
from pytest_schedprof.model.result import (
    BackendResult,
    Result,
    Segment,
    SpanCost,
    TargetFiles,
    Window,
)
from pytest_schedprof.store.records import encode
from pytest_schedprof.store.run_directory import RESULT_FILE, write

LOG_FILE = "scheduler.log"

Kept: TypeAlias = dict[Path, RawProfile]
"""Files that have been written, with what they hold, so that none is written twice."""


def keep_record(directory: Path | None, result: Result) -> None:
    """Write the record into the directory, if there is one.

    Raises:
        ArtifactError: if it cannot be written.
    """
    if directory is not None:
        write(directory / RESULT_FILE, encode(result))


def keep_log(directory: Path | None, log: bytes, errors: list[SchedprofError]) -> None:
    """Write the log of a scheduler that was lost, which is deleted with its cluster."""
    if directory is None or not log:
        return
    try:
        write(directory / LOG_FILE, log)
    except SchedprofError as error:
        errors.append(error)


def keep_files(
    directory: Path | None,
    target: str,
    backend: Backend,
    raws: Sequence[RawProfile],
    errors: list[SchedprofError],
    written: Kept,
) -> tuple[str, ...]:
    """Write a target's files before they are read, so that unreadable ones are kept too.

    Args:
        errors: gets what keeps a file from being written; the files after it are left out.
        written: files that exist already, and gets those that are written.

    Returns:
        The names of the files in the directory; none without a directory.
    """
    if directory is None:
        return ()
    kept: list[str] = []
    for stem, raw in _stems(directory, target, raws):
        try:
            kept.append(keep_raw(stem, backend, raw, written))
            for suffix, content in backend.extras(raw.content).items():
                path = _with_suffix(stem, suffix)
                write(path, content)
                kept.append(path.name)
        except Exception as error:  # a full disk, or a tool that draws pictures
            errors.append(as_own(error))
            break
    return tuple(kept)


def keep_raws(
    directory: Path, target: str, backend: Backend, raws: Sequence[RawProfile], written: Kept
) -> None:
    """Write those files of a target that came from the backend itself.

    Raises:
        ArtifactError: if one cannot be written.
    """
    for stem, raw in _stems(directory, target, raws):
        keep_raw(stem, backend, raw, written)


def _stems(
    directory: Path, target: str, raws: Sequence[RawProfile]
) -> Iterator[tuple[Path, RawProfile]]:
    """Yield each file with its path without the suffix, which is numbered from the second on."""
    for number, raw in enumerate(raws, start=1):
        yield directory / (target if number == 1 else f"{target}.{number}"), raw


def keep_raw(stem: Path, backend: Backend, raw: RawProfile, written: Kept) -> str:
    """Write one file as it came, unless it is written already; return its name.

    Raises:
        ArtifactError: if it cannot be written.
    """
    path = _with_suffix(stem, backend.suffix(raw.content))
    if written.get(path) is not raw:
        write(path, raw.content)
        written[path] = raw
    return path.name


def _with_suffix(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


OTHERS_MATTER = 0.01
"""Fraction of the tasks that may be other clients' before limits are no longer judged."""

UNNAMED = "the scheduler was lost before it named the functions of the profile"


@dataclass(frozen=True, slots=True)
class Assessment:
    """Results of one test's profiling; trouble is kept here and never raised."""

    backends: tuple[BackendResult, ...]
    errors: tuple[SchedprofError, ...]

    @property
    def troubles(self) -> tuple[str, ...]:
        """The message of each error."""
        return tuple(str(error) for error in self.errors)


NOT_ASSESSED = Assessment((), ())


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was measured of a test before, or on another side."""

    reference: Reference | InTurns | None
    test: Result
    """The test as it is now: its ID, cluster and environment."""

    def baseline(self, measured: BackendResult) -> Baseline | None:
        """Return what relative limits of this backend are held against."""
        if self.reference is None:
            return None
        return self.reference.before(Measurement(self.test, measured))

    def compare(self, measured: BackendResult, is_binding: bool) -> list[Comparison]:
        """Compare one backend's result with the reference, if there is one."""
        if self.reference is None:
            return []
        return self.reference.compare(Measurement(self.test, measured), is_binding=is_binding)


def assess(
    recorder: Recorder,
    limits: Sequence[Limit],
    directory: Path | None,
    earlier: Earlier | None = None,
) -> Assessment:
    """Store and judge what a recorder holds; without a directory nothing is stored."""
    errors = list(recorder.errors)
    results = []
    for backend in recorder.backends:
        if rounds := _rounds_of(backend, recorder):
            recorded = _Recorded(recorder.control, backend, rounds, errors, recorder.kept)
            results.extend(recorded.results(limits, directory, earlier))
    return Assessment(tuple(results), tuple(errors))


def keep_rounds(recorder: Recorder, directory: Path) -> None:
    """Store the files of the rounds so far: `assess` may never be reached, or be interrupted.

    Raises:
        ArtifactError: if one cannot be written.
    """
    for backend in recorder.backends:
        if rounds := _rounds_of(backend, recorder):
            recorded = _Recorded(recorder.control, backend, rounds, [], recorder.kept)
            recorded.keep_raws(directory)


def _rounds_of(backend: Backend, recorder: Recorder) -> list[list[SegmentRecord]]:
    """Return the rounds that the backend recorded; it takes no part in all of them."""
    rounds = (
        [segment for segment in each if backend.name in segment.raw] for each in recorder.rounds
    )
    return [segments for segments in rounds if segments]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """One backend's recordings of one test."""

    control: Control
    backend: Backend
    rounds: list[list[SegmentRecord]]
    errors: list[SchedprofError]
    written: Kept

    def results(
        self, limits: Sequence[Limit], directory: Path | None, earlier: Earlier | None
    ) -> list[BackendResult]:
        """Return the backend's result, or nothing if its files cannot be read."""
        artifacts = self._keep(directory, "scheduler", self._raws)
        targets = self._targets(directory)
        try:
            profiles = [[self._read(segment) for segment in each] for each in self.rounds]
            measurements = self._measurements(profiles)
            result = self._result(measurements, profiles, limits)
            baseline = earlier.baseline(result) if earlier else None
            limited = tuple(self._judged(limits, measurements, baseline))
            return [replace(result, limits=limited, artifacts=artifacts, targets=targets)]
        except Exception as error:  # a third party's backend may raise anything
            self.errors.append(as_own(error))
            return []

    @property
    def _segments(self) -> list[SegmentRecord]:
        return [segment for each in self.rounds for segment in each]

    @property
    def _raws(self) -> list[RawProfile]:
        """The scheduler's files in the order of recording."""
        return [segment.raw[self.backend.name] for segment in self._segments]

    def _keep(
        self, directory: Path | None, target: str, raws: Sequence[RawProfile]
    ) -> tuple[str, ...]:
        return keep_files(directory, target, self.backend, raws, self.errors, self.written)

    def keep_raws(self, directory: Path) -> None:
        """Write the files of all targets as they came.

        Raises:
            ArtifactError: if one cannot be written.
        """
        raws = {"scheduler": self._raws}
        for name, brought in self._elsewhere().items():
            raws[name] = [raw for _, raw in brought]
        for name, each in raws.items():
            keep_raws(directory, name, self.backend, each, self.written)

    def _targets(self, directory: Path | None) -> tuple[TargetFiles, ...]:
        """Keep the files of workers and the client; only the scheduler's are read and judged."""
        return tuple(
            TargetFiles(
                name,
                brought[0][0].addresses,
                self._keep(directory, name, [raw for _, raw in brought]),
                tuple(dict.fromkeys(text for _, raw in brought for text in raw.warnings)),
            )
            for name, brought in self._elsewhere().items()
        )

    def _elsewhere(self) -> dict[str, list[tuple[Target, RawProfile]]]:
        """Return the files of other targets than the scheduler, by the target's name."""
        found: dict[str, list[tuple[Target, RawProfile]]] = {}
        for segment in self._segments:
            for backend, target, raw in segment.elsewhere:
                if backend == self.backend.name:
                    found.setdefault(target.name, []).append((target, raw))
        return found

    def _read(self, segment: SegmentRecord) -> Profile:
        raw = segment.raw[self.backend.name]
        profile = self.backend.read(raw.content, self._name)
        doubt = profile.doubt or raw.doubt or _doubt_of_others(segment.facts)
        if isinstance(profile, SampleProfile) and isinstance(self.control, InProcess):
            profile = replace(profile, is_shared=True)
        return replace(profile, doubt=doubt or (UNNAMED if self._is_lost else ""))

    @property
    def _is_lost(self) -> bool:
        """Whether the scheduler can be asked no more."""
        return any(isinstance(error, SchedulerLostError) for error in self.errors)

    def _name(self, places: list[CodeLocation]) -> list[Function]:
        """Ask the scheduler for names of functions; without it use the modules of this process."""
        if not self._is_lost:
            try:
                return self.control.name_places(places)
            except SchedulerLostError as error:
                self.errors.append(error)
        return names.name_places(places)

    def _measurements(self, profiles: list[list[Profile]]) -> Shares | Costs:
        costs = Costs([self._unit(*each) for each in zip(self.rounds, profiles, strict=True)])
        samples = [[p for p in each if isinstance(p, SampleProfile)] for each in profiles]
        if any(samples):
            return shares_of(samples, drift=self.backend.drift, whole=costs)
        return costs

    def _unit(self, segments: list[SegmentRecord], profiles: list[Profile]) -> Unit:
        costs = [profile for profile in profiles if isinstance(profile, CostProfile)]
        tasks = sum(segment.facts.tasks for segment in segments)
        return unit_of(tasks, _told_by_scheduler(segments), costs, segments[0].facts.scale)

    def _judged(
        self, limits: Sequence[Limit], measurements: Shares | Costs, baseline: Baseline | None
    ) -> Iterator[LimitResult]:
        """Judge the limits that this backend measures."""
        mine = [limit for limit in limits if limit.measured in self.backend.metrics]
        known = self._functions_of(mine)
        client = ClientCosts([[each.facts for each in segments] for segments in self.rounds])
        for limit in mine:
            held: Measurements = client if limit.is_of_client else measurements
            try:
                yield judge(limit, held, known.get(limit.pattern, []), baseline)
            except LimitError as error:
                self.errors.append(error)

    def _functions_of(self, limits: Sequence[Limit]) -> dict[str, list[Function]]:
        """Ask the scheduler which functions of its code, or types, the limits' patterns name."""
        in_c = {limit.pattern for limit in limits if limit.pattern.startswith("c:")}
        patterns = {limit.pattern for limit in limits if ":" in limit.pattern} - in_c
        return {each: [each] for each in in_c} | self._found_there(patterns)

    def _found_there(self, patterns: Collection[str]) -> dict[str, list[Function]]:
        if self.backend.metrics <= INTAKE:
            return {pattern: steps_named(pattern) for pattern in patterns}
        of_types = self.backend.metrics <= HELD
        find = names.find_types if of_types else names.find_functions
        if not patterns:
            return {}
        if self._is_lost:  # then nothing is judged, whatever the patterns name
            return {pattern: [pattern] for pattern in patterns}
        compiled = {pattern: compile_pattern(pattern).pattern for pattern in patterns}
        found: dict[str, list[Function]] = self.control.call(find, compiled, 1)
        return found

    def _result(
        self,
        measurements: Shares | Costs,
        profiles: list[list[Profile]],
        limits: Sequence[Limit],
    ) -> BackendResult:
        """Return the result without the verdicts of limits and without files."""
        named = [limit.pattern for limit in limits if not has_wildcard(limit.pattern)]
        segments = tuple(segment.facts for segment in self._segments)
        told = [text for raw in self._raws for text in raw.warnings]
        return BackendResult(
            backend=self.backend.name,
            mode=profiles[0][0].mode,
            settings=dict(self.backend.settings),
            window=Window(len(self.rounds), segments),
            shares=measurements.sampled() if isinstance(measurements, Shares) else None,
            costs=measurements.measured(named) if isinstance(measurements, Costs) else None,
            limits=(),
            artifacts=(),
            warnings=tuple(dict.fromkeys([*_note_of_others(segments), *told])),
            doubt=_doubt_of(profiles),
            hashes=tuple(_hashes_of(profiles)),
            spans=_spans_of(measurements, [profile for each in profiles for profile in each]),
        )


def _spans_of(measurements: Shares | Costs, profiles: list[Profile]) -> tuple[SpanCost, ...]:
    if isinstance(measurements, Shares):
        samples = [each for each in profiles if isinstance(each, SampleProfile)]
        return sampled_by_span(measurements, samples)
    return counted_by_span(each for each in profiles if isinstance(each, CostProfile))


def _doubt_of(profiles: list[list[Profile]]) -> str:
    """Return the first reason not to judge by these profiles; empty if there is none."""
    doubts = (profile.doubt for each in profiles for profile in each)
    return next(filter(None, doubts), "")


def _hashes_of(profiles: list[list[Profile]]) -> Iterator[str]:
    """Yield the hash of each recording that has one."""
    for each in profiles:
        yield from (p.hash for p in each if isinstance(p, CostProfile) and p.hash)


def _note_of_others(segments: Sequence[Segment]) -> list[str]:
    tasks = sum(segment.others_tasks for segment in segments)
    if not tasks:
        return []
    return [f"{tasks} tasks of other clients finished during the test; all figures include them"]


def _doubt_of_others(segment: Segment) -> str:
    """Refuse to judge if other clients' tasks matter: their cost cannot be told from ours."""
    total = segment.tasks + segment.others_tasks
    if segment.others_tasks <= OTHERS_MATTER * total:
        return ""
    return (
        f"{segment.others_tasks} of {total} tasks belonged to other clients: profile a scheduler "
        "that nobody else uses"
    )


def _told_by_scheduler(segments: Sequence[SegmentRecord]) -> dict[str, float]:
    """Return the costs that the scheduler itself counts."""
    return {
        "cpu": sum(segment.facts.cpu_seconds for segment in segments),
        "transitions": sum(segment.facts.transitions for segment in segments),
    }
