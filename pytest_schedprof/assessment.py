"""From a recorder's bytes to results: every artifact stored, every limit judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.agent import names
from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.analysis.shares import Shares, shares_of
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.errors import LimitError, SchedprofError, told
from pytest_schedprof.gates.judge import judge
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.model.result import BackendResult, Window
from pytest_schedprof.model.verdict import LimitResult
from pytest_schedprof.recorder import Recorder
from pytest_schedprof.storage.run_directory import write


@dataclass(frozen=True, slots=True)
class Assessment:
    """What became of one test's profiling; trouble is told here, never raised."""

    window: Window
    backends: tuple[BackendResult, ...]
    troubles: tuple[str, ...]


def assess(recorder: Recorder, limits: Sequence[Limit], directory: Path) -> Assessment:
    """Store and judge what a recorder holds."""
    troubles = list(recorder.troubles)
    results = []
    for backend in recorder.backends:
        rounds = [
            [segment.raw[backend.name] for segment in each if backend.name in segment.raw]
            for each in recorder.rounds
        ]
        if any(rounds):
            case = _Case(recorder.control, backend, rounds, troubles)
            results.extend(case.results(limits, directory))
    segments = tuple(segment.facts for each in recorder.rounds for segment in each)
    return Assessment(Window(len(recorder.rounds), segments), tuple(results), tuple(troubles))


@dataclass(frozen=True, slots=True)
class _Case:
    """One backend's recordings of one test."""

    control: Control
    backend: Backend
    rounds: list[list[RawProfile]]
    troubles: list[str]

    def results(self, limits: Sequence[Limit], directory: Path) -> list[BackendResult]:
        artifacts = self._store(directory)
        try:
            shares = self._shares()
            return [self._result(shares, self._judged(limits, shares), artifacts)]
        except Exception as error:  # a third party's backend may raise anything
            self.troubles.append(told(error))
            return []

    def _store(self, directory: Path) -> tuple[str, ...]:
        """Keep the files as they came: also those that turn out to be unreadable."""
        kept = []
        for number, raw in enumerate((raw for each in self.rounds for raw in each), start=1):
            name = f"scheduler.{'' if number == 1 else f'{number}.'}{self.backend.suffix}"
            try:
                write(directory / name, raw.content)
                kept.append(name)
            except SchedprofError as error:
                self.troubles.append(str(error))
                break
        return tuple(kept)

    def _shares(self) -> Shares:
        profiles = [
            [self.backend.read(raw.content, self.control.name_places) for raw in each]
            for each in self.rounds
        ]
        return shares_of(profiles, drift=self.backend.drift)

    def _judged(self, limits: Sequence[Limit], shares: Shares) -> list[LimitResult]:
        mine = [limit for limit in limits if limit.metric in self.backend.metrics]
        patterns = {limit.pattern: compile_pattern(limit.pattern).pattern for limit in mine}
        known = self.control.call(names.find_functions, patterns, 1) if mine else {}
        judged = []
        for limit in mine:
            try:
                judged.append(judge(limit, shares, known.get(limit.pattern, [])))
            except LimitError as error:
                self.troubles.append(str(error))
        return judged

    def _result(
        self, shares: Shares, limits: list[LimitResult], artifacts: tuple[str, ...]
    ) -> BackendResult:
        return BackendResult(
            backend=self.backend.name,
            mode=self.backend.mode,
            settings=dict(self.backend.settings),
            busy_samples=shares.total.busy,
            idle_samples=shares.total.idle,
            empty_samples=shares.total.empty,
            inference=shares.inference,
            functions=shares.functions(),
            owners=shares.owners(),
            limits=tuple(limits),
            artifacts=artifacts,
            warnings=tuple(w for each in self.rounds for raw in each for w in raw.warnings),
        )
