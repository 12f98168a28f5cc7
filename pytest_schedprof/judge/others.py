"""The same tests on another side: of another run, of turns, or of a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.judge.recordings import read_calls, read_samples, trimmed
from pytest_schedprof.model.backend import KnownBackends
from pytest_schedprof.model.profile import Stack
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.store.baselines import folder_of, folder_with_sources, is_worth_keeping, load
from pytest_schedprof.store.run_directory import AGAINST
from pytest_schedprof.store.run_files import RunFiles, TestFiles, read_run, read_side
from pytest_schedprof.store.sources import Key, read_stacks, stacks_file_of, write_stacks


@dataclass(frozen=True, slots=True)
class Other:
    """The same test on another side: its record, and its files or at least its stacks."""

    name: str
    result: Result
    directory: Path | None = None
    """Of its files; None if only a baseline is left."""
    stacks: Mapping[Key, Counter[Stack]] = field(default_factory=dict)
    """Those that the baseline keeps."""

    def backend(self, one: BackendResult) -> BackendResult | None:
        """Return the same backend in the same mode, as samples of others are not comparable."""
        same = (
            backend
            for backend in self.result.backends
            if (backend.backend, backend.mode) == (one.backend, one.mode)
        )
        return next(same, None)

    def samples(self, of: BackendResult) -> Counter[Stack]:
        """Return the busy samples of one of its backends; nothing if they are not kept."""
        return read_samples(self.directory, of).stacks if self.directory else self._kept(of)

    def calls(self, of: BackendResult, known: KnownBackends) -> Counter[Stack]:
        """Return what calls cost by one of its backends; nothing if that is not kept."""
        return read_calls(self.directory, of, known).stacks if self.directory else self._kept(of)

    def _kept(self, of: BackendResult) -> Counter[Stack]:
        return self.stacks.get(Key(self.result.test_id, of.backend, of.mode), Counter())


def other_of(
    test: TestFiles, run: RunFiles | None = None, saved: Saved | None = None
) -> Other | None:
    """Return the test in another run, or the other side of a test in turns, or the saved test."""
    if run is not None:
        return next(
            (
                Other(run.path.name, attempt.result, attempt.directory)
                for attempt in reversed(run.tests)  # the last usable one of several attempts
                if attempt.result
                and attempt.result.is_usable
                and attempt.entry.test_id == test.entry.test_id
            ),
            None,
        )
    if test.result is None:
        return None
    if side := read_side(test.directory):
        return Other(test.result.baseline or AGAINST, side, test.directory / AGAINST)
    return saved.test(test.result) if saved else None


class Saved:
    """Baselines that a run was compared with, by their names; each is read once."""

    def __init__(self, run: Path) -> None:
        self._run, self._directory = run.name, str(run.parent)
        self._others: dict[str, dict[str, Other]] = {}

    def test(self, result: Result) -> Other | None:
        """Return the test as the baseline has it; None without a baseline or its stacks."""
        name = result.baseline
        if name and name not in self._others:
            self._others[name] = self._read(name)
        return self._others[name].get(result.test_id) if name else None

    def _read(self, name: str) -> dict[str, Other]:
        folder = folder_with_sources(name, self._directory)
        if folder is None or stacks_file_of(folder, self._run).exists():
            return {}  # this run itself has been saved over what it was compared with
        stacks = read_stacks(folder)
        if not stacks:
            return {}
        try:
            results = load(name, self._directory).results
        except SchedprofError:
            return {}
        return {result.test_id: Other(name, result, stacks=stacks) for result in results}


LEAST = 0.0005
"""Part of the samples from which on a call has a stack of its own."""


def keep_stacks(run: Path, name: str, directory: str, known: KnownBackends) -> None:
    """Keep the stacks of a saved session; without them a baseline is as good for all else.

    Args:
        run: directory of the session.
        name: of the baseline.
        directory: that has the baselines.
        known: facts about backends, which tell whose files have stacks.
    """
    folder = folder_of(name, directory)
    if folder.name.endswith(".json"):
        return
    with suppress(SchedprofError):
        tests = read_run(run).tests
        kept = {key: counts for test in tests for key, counts in _stacks(test, known).items()}
        if kept:
            write_stacks(folder, run.name, kept)


def _stacks(test: TestFiles, known: KnownBackends) -> Mapping[Key, Counter[Stack]]:
    if test.result is None or not is_worth_keeping(test.result):
        return {}
    kept = {}
    for backend in test.result.backends:
        if backend.shares is None:
            stacks = read_calls(test.directory, backend, known).stacks
        else:
            stacks = read_samples(test.directory, backend).stacks
        if stacks:
            key = Key(test.result.test_id, backend.backend, backend.mode)
            kept[key] = trimmed(stacks, LEAST)
    return kept
