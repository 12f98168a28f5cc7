"""From a recorder's bytes to results: each backend's profiles are kept, read and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.agent import names
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.errors import LimitError, SchedprofError, SchedulerLostError, as_own
from pytest_schedprof.judge.costs import Costs, Unit, unit_of
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.phases import ClientCosts
from pytest_schedprof.judge.reference import InTurns, Reference
from pytest_schedprof.judge.shares import Shares, shares_of
from pytest_schedprof.judge.verdicts import Baseline, Measurements, judge
from pytest_schedprof.measuring.recorder import Recorder, SegmentRecord
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.limit import Limit, LimitResult
from pytest_schedprof.model.profile import (
    CodeLocation,
    CostProfile,
    Function,
    Profile,
    SampleProfile,
    compile_pattern,
    has_wildcard,
)
from pytest_schedprof.model.result import BackendResult, Result, Window
from pytest_schedprof.store.records import encode
from pytest_schedprof.store.run_directory import RESULT_FILE, write


def keep_record(directory: Path | None, result: Result) -> None:
    """Write the record into the directory, if there is one.

    Raises:
        ArtifactError: if it cannot be written.
    """
    if directory is not None:
        write(directory / RESULT_FILE, encode(result))


UNNAMED = "the scheduler was lost before it named the functions of the profile"


class Assessment(Struct, frozen=True):
    """Results of one test's profiling; trouble is kept here and never raised."""

    backends: tuple[BackendResult, ...]
    errors: tuple[SchedprofError, ...]


NOT_ASSESSED = Assessment((), ())


class Earlier(Struct, frozen=True):
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
    results: list[BackendResult] = []
    for recorded in _recorded(recorder, errors):
        results.extend(recorded.results(limits, directory, earlier))
    return Assessment(tuple(results), tuple(errors))


def keep_rounds(recorder: Recorder, directory: Path) -> None:
    """Store the files of the rounds so far: `assess` may never be reached, or be interrupted.

    Raises:
        ArtifactError: if one cannot be written.
    """
    for recorded in _recorded(recorder, []):
        recorded.keep_raws(directory)


def _recorded(recorder: Recorder, errors: list[SchedprofError]) -> Iterator[_Recorded]:
    """Yield what each backend recorded; it takes no part in all rounds."""
    for backend in recorder.backends:
        rounds = (
            [segment for segment in segments if backend.name in segment.raw]
            for segments in recorder.rounds
        )
        if rounds_with_any := list(filter(None, rounds)):
            yield _Recorded(recorder, backend, rounds_with_any, errors)


class _Recorded(Struct, frozen=True):
    """One backend's recordings of one test."""

    recorder: Recorder
    backend: Backend
    rounds: list[list[SegmentRecord]]
    errors: list[SchedprofError]

    def results(
        self, limits: Sequence[Limit], directory: Path | None, earlier: Earlier | None
    ) -> list[BackendResult]:
        """Return the backend's result, or nothing if its files cannot be read."""
        artifacts = self._keep(directory) if directory else ()
        try:
            profiles = [[self._read(segment) for segment in segments] for segments in self.rounds]
            measurements = self._measurements(profiles)
            result = self._result(measurements, profiles, limits)
            baseline = earlier.baseline(result) if earlier else None
            limited = tuple(self._judged(limits, measurements, baseline))
            return [replace(result, limits=limited, artifacts=artifacts)]
        except Exception as error:  # a third party's backend may raise anything
            self.errors.append(as_own(error))
            return []

    @property
    def _segments(self) -> list[SegmentRecord]:
        return [segment for segments in self.rounds for segment in segments]

    @property
    def _raws(self) -> list[RawProfile]:
        """The files in the order of recording."""
        return [segment.raw[self.backend.name] for segment in self._segments]

    def keep_raws(self, directory: Path) -> None:
        """Write the files as they came.

        Raises:
            ArtifactError: if one cannot be written.
        """
        for stem in self._stems(directory):
            self._keep_raw(*stem)

    def _stems(self, directory: Path) -> Iterator[tuple[Path, RawProfile]]:
        """Yield each file with its path without the suffix, numbered from the second on."""
        for number, raw in enumerate(self._raws, start=1):
            yield directory / ("scheduler" if number == 1 else f"scheduler.{number}"), raw

    def _keep(self, directory: Path) -> tuple[str, ...]:
        """Write the files before they are read, so that unreadable ones are kept too.

        Return their names. After one that cannot be written the others are left out.
        """
        kept: list[str] = []
        try:
            for stem, raw in self._stems(directory):
                kept.append(self._keep_raw(stem, raw))
                for suffix, content in self.backend.extras(raw.content).items():
                    path = _with_suffix(stem, suffix)
                    write(path, content)
                    kept.append(path.name)
        except Exception as error:  # a full disk, or a tool that draws pictures
            self.errors.append(as_own(error))
        return tuple(kept)

    def _keep_raw(self, stem: Path, raw: RawProfile) -> str:
        """Write one file as it came, unless it is written already; return its name."""
        path = _with_suffix(stem, self.backend.suffix(raw.content))
        if self.recorder.kept.get(path) is not raw:
            write(path, raw.content)
            self.recorder.kept[path] = raw
        return path.name

    def _read(self, segment: SegmentRecord) -> Profile:
        raw = segment.raw[self.backend.name]
        profile = self.backend.read(raw.content, self._name)
        doubt = profile.doubt or raw.doubt
        if isinstance(profile, SampleProfile) and isinstance(self.recorder.control, InProcess):
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
                return self.recorder.control.name_places(places)
            except SchedulerLostError as error:
                self.errors.append(error)
        return names.name_places(places)

    def _measurements(self, profiles: list[list[Profile]]) -> Shares | Costs:
        costs = Costs([self._unit(*round_) for round_ in zip(self.rounds, profiles, strict=True)])
        samples = [[p for p in round_ if isinstance(p, SampleProfile)] for round_ in profiles]
        if any(samples):
            return shares_of(samples, drift=self.backend.drift, whole=costs)
        return costs

    def _unit(self, segments: list[SegmentRecord], profiles: list[Profile]) -> Unit:
        costs = [profile for profile in profiles if isinstance(profile, CostProfile)]
        facts = [segment.facts for segment in segments]
        counted_by_the_scheduler = {
            "cpu": sum(segment.cpu_seconds for segment in facts),
            "transitions": sum(segment.transitions for segment in facts),
        }
        tasks = sum(segment.tasks for segment in facts)
        return unit_of(tasks, counted_by_the_scheduler, costs, facts[0].scale)

    def _judged(
        self, limits: Sequence[Limit], measurements: Shares | Costs, baseline: Baseline | None
    ) -> Iterator[LimitResult]:
        mine = [limit for limit in limits if limit.measured in self.backend.metrics]
        known = self._functions_of(mine)
        client = ClientCosts([[segment.facts for segment in segments] for segments in self.rounds])
        for limit in mine:
            held: Measurements = client if limit.is_of_client else measurements
            try:
                yield judge(limit, held, known.get(limit.pattern, []), baseline)
            except LimitError as error:
                self.errors.append(error)

    def _functions_of(self, limits: Sequence[Limit]) -> dict[str, list[Function]]:
        """Ask the scheduler which functions of its code the limits' patterns name."""
        in_c = {limit.pattern for limit in limits if limit.pattern.startswith("c:")}
        patterns = {limit.pattern for limit in limits if ":" in limit.pattern} - in_c
        functions = {pattern: [pattern] for pattern in in_c}
        if self._is_lost:  # then nothing is judged, whatever the patterns name
            return functions | {pattern: [pattern] for pattern in patterns}
        if not patterns:
            return functions
        compiled = {pattern: compile_pattern(pattern).pattern for pattern in patterns}
        answer: dict[str, list[Function]] = self.recorder.control.call(
            names.find_functions, compiled, 1
        )
        return functions | answer

    def _result(
        self,
        measurements: Shares | Costs,
        profiles_of_rounds: list[list[Profile]],
        limits: Sequence[Limit],
    ) -> BackendResult:
        """Return the result without the verdicts of limits and without files."""
        profiles = [profile for profiles in profiles_of_rounds for profile in profiles]
        costs = [profile for profile in profiles if isinstance(profile, CostProfile)]
        named = [limit.pattern for limit in limits if not has_wildcard(limit.pattern)]
        segments = tuple(segment.facts for segment in self._segments)
        warnings = [text for raw in self._raws for text in raw.warnings]
        return BackendResult(
            backend=self.backend.name,
            mode=profiles[0].mode,
            settings=dict(self.backend.settings),
            window=Window(len(self.rounds), segments),
            shares=measurements.sampled() if isinstance(measurements, Shares) else None,
            costs=measurements.measured(named) if isinstance(measurements, Costs) else None,
            limits=(),
            artifacts=(),
            warnings=tuple(dict.fromkeys(warnings)),
            doubt=next(filter(None, (profile.doubt for profile in profiles)), ""),
            hashes=tuple(profile.hash for profile in costs if profile.hash),
        )


def _with_suffix(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")
