"""From a recorder's bytes to results: every artifact stored, every limit judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pytest_schedprof.agent import names
from pytest_schedprof.analysis.costs import Costs, Unit, unit_of
from pytest_schedprof.analysis.grounds import Grounds
from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.analysis.phases import ClientCosts
from pytest_schedprof.analysis.shares import Shares, shares_of
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.clusters.contract import Target
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.errors import LimitError, SchedprofError, as_own
from pytest_schedprof.gates.judge import NO_BASELINE, Baseline, judge
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.model.profile import CostProfile, Profile, SampleProfile
from pytest_schedprof.model.result import BackendResult, Segment, TargetFiles, Window
from pytest_schedprof.model.verdict import LimitResult
from pytest_schedprof.recorder import Recorder, SegmentRecord
from pytest_schedprof.storage.run_directory import write

OTHERS_MATTER = 0.01
"""Part of the tasks that may be other clients' before no limit can be judged."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What became of one test's profiling; trouble is told here, never raised."""

    backends: tuple[BackendResult, ...]
    errors: tuple[SchedprofError, ...]

    @property
    def troubles(self) -> tuple[str, ...]:
        """What to tell the user of each error."""
        return tuple(str(error) for error in self.errors)


Recall: TypeAlias = Callable[[BackendResult], Baseline]
"""Finds what was measured before with a backend, for limits that are relative to it."""


def assess(
    recorder: Recorder,
    limits: Sequence[Limit],
    directory: Path | None,
    recall: Recall = lambda result: NO_BASELINE,
) -> Assessment:
    """Store and judge what a recorder holds; without a directory nothing is stored."""
    errors = list(recorder.errors)
    results = []
    for backend in recorder.backends:
        rounds = [
            segments
            for each in recorder.rounds
            if (segments := [segment for segment in each if backend.name in segment.raw])
        ]
        if rounds:
            case = _Case(recorder.control, backend, rounds, errors, recall)
            results.extend(case.results(limits, directory))
    return Assessment(tuple(results), tuple(errors))


@dataclass(frozen=True, slots=True)
class _Case:
    """One backend's recordings of one test."""

    control: Control
    backend: Backend
    rounds: list[list[SegmentRecord]]
    errors: list[SchedprofError]
    recall: Recall

    @property
    def raws(self) -> list[RawProfile]:
        """What came back, in order."""
        return [segment.raw[self.backend.name] for each in self.rounds for segment in each]

    def results(self, limits: Sequence[Limit], directory: Path | None) -> list[BackendResult]:
        artifacts = () if directory is None else self._store(directory, "scheduler", self.raws)
        targets = self._targets(directory)
        try:
            profiles = [[self._read(segment) for segment in each] for each in self.rounds]
            grounds = self._grounds(profiles)
            result = self._result(grounds, profiles)
            judged = self._judged(limits, grounds, self.recall(result))
            return [replace(result, limits=tuple(judged), artifacts=artifacts, targets=targets)]
        except Exception as error:  # a third party's backend may raise anything
            self.errors.append(as_own(error))
            return []

    def _elsewhere(self) -> dict[str, list[tuple[Target, RawProfile]]]:
        """What came back of other targets, by their names."""
        found: dict[str, list[tuple[Target, RawProfile]]] = {}
        for segment in (segment for each in self.rounds for segment in each):
            for backend, target, raw in segment.elsewhere:
                if backend == self.backend.name:
                    found.setdefault(target.name, []).append((target, raw))
        return found

    def _targets(self, directory: Path | None) -> tuple[TargetFiles, ...]:
        """Their files are kept; only of the scheduler's anything is said."""
        return tuple(
            TargetFiles(
                name,
                brought[0][0].addresses,
                () if directory is None else self._store(directory, name, [r for _, r in brought]),
                tuple(dict.fromkeys(text for _, raw in brought for text in raw.warnings)),
            )
            for name, brought in self._elsewhere().items()
        )

    def _store(self, directory: Path, name: str, raws: Sequence[RawProfile]) -> tuple[str, ...]:
        """Keep the files as they came: also those that turn out to be unreadable."""
        kept: list[str] = []
        for number, raw in enumerate(raws, start=1):
            stem = f"{name}." if number == 1 else f"{name}.{number}."
            try:
                self._keep(directory, stem + self.backend.suffix, raw.content, kept)
                for suffix, content in self.backend.extras(raw.content).items():
                    self._keep(directory, stem + suffix, content, kept)
            except Exception as error:  # full disk, or a tool that draws pictures
                self.errors.append(as_own(error))
                break
        return tuple(kept)

    def _keep(self, directory: Path, name: str, content: bytes, kept: list[str]) -> None:
        write(directory / name, content)
        kept.append(name)

    def _grounds(self, profiles: list[list[Profile]]) -> Shares | Costs:
        costs = Costs([self._unit(*each) for each in zip(self.rounds, profiles, strict=True)])
        samples = [[p for p in each if isinstance(p, SampleProfile)] for each in profiles]
        if any(samples):
            return shares_of(samples, drift=self.backend.drift, whole=costs)
        return costs

    def _unit(self, segments: list[SegmentRecord], profiles: list[Profile]) -> Unit:
        costs = [profile for profile in profiles if isinstance(profile, CostProfile)]
        tasks = sum(segment.facts.tasks for segment in segments)
        return unit_of(tasks, _told_by_scheduler(segments), costs, segments[0].facts.scale)

    def _read(self, segment: SegmentRecord) -> Profile:
        raw = segment.raw[self.backend.name]
        profile = self.backend.read(raw.content, self.control.name_places)
        doubt = profile.doubt or raw.doubt or _doubt_of_others(segment.facts)
        return replace(profile, doubt=doubt)

    def _judged(
        self, limits: Sequence[Limit], grounds: Shares | Costs, baseline: Baseline
    ) -> list[LimitResult]:
        mine = [limit for limit in limits if limit.measured in self.backend.metrics]
        patterns = {
            limit.pattern: compile_pattern(limit.pattern).pattern
            for limit in mine
            if ":" in limit.pattern
        }
        known = self.control.call(names.find_functions, patterns, 1) if patterns else {}
        client = ClientCosts([[each.facts for each in segments] for segments in self.rounds])
        judged = []
        for limit in mine:
            held: Grounds = client if limit.is_of_client else grounds
            try:
                judged.append(judge(limit, held, known.get(limit.pattern, []), baseline))
            except LimitError as error:
                self.errors.append(error)
        return judged

    def _result(self, grounds: Shares | Costs, profiles: list[list[Profile]]) -> BackendResult:
        """All but the limits' verdicts and the files."""
        segments = tuple(segment.facts for each in self.rounds for segment in each)
        told = [text for raw in self.raws for text in raw.warnings]
        return BackendResult(
            backend=self.backend.name,
            mode=profiles[0][0].mode,
            settings=dict(self.backend.settings),
            window=Window(len(self.rounds), segments),
            shares=grounds.sampled() if isinstance(grounds, Shares) else None,
            costs=grounds.measured() if isinstance(grounds, Costs) else None,
            limits=(),
            artifacts=(),
            warnings=tuple(dict.fromkeys([*_note_of_others(segments), *told])),
            doubt=next((p.doubt for each in profiles for p in each if p.doubt), ""),
        )


def _note_of_others(segments: Sequence[Segment]) -> list[str]:
    tasks = sum(segment.others_tasks for segment in segments)
    if not tasks:
        return []
    return [f"{tasks} tasks of other clients finished meanwhile; what they cost is in all figures"]


def _doubt_of_others(segment: Segment) -> str:
    """What they cost cannot be told from the costs of our own."""
    total = segment.tasks + segment.others_tasks
    if segment.others_tasks <= OTHERS_MATTER * total:
        return ""
    return (
        f"{segment.others_tasks} of {total} tasks were other clients': profile a scheduler that "
        "nobody else uses"
    )


def _told_by_scheduler(segments: Sequence[SegmentRecord]) -> dict[str, float]:
    """Costs that the scheduler itself keeps count of."""
    return {
        "cpu": sum(segment.facts.cpu_seconds for segment in segments),
        "transitions": sum(segment.facts.transitions for segment in segments),
    }
