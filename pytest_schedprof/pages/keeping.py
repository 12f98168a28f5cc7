"""Keep the stacks of a session beside the baseline that it is saved as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.model.backend import KnownBackends
from pytest_schedprof.model.profile import Stack
from pytest_schedprof.pages.call_costs import read_calls
from pytest_schedprof.pages.reading import TestFiles, read_run, read_samples
from pytest_schedprof.pages.tree import trimmed
from pytest_schedprof.storage.baselines import folder_of, is_worth_keeping
from pytest_schedprof.storage.stacks import Key, write_stacks

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
        found = {key: each for test in tests for key, each in _stacks(test, known).items()}
        if found:
            write_stacks(folder, run.name, found)


def _stacks(test: TestFiles, known: KnownBackends) -> Mapping[Key, Counter[Stack]]:
    if test.result is None or not is_worth_keeping(test.result):
        return {}
    found = {}
    for backend in test.result.backends:
        if backend.shares is None:
            stacks = read_calls(test.directory, backend, known).stacks
        else:
            stacks = read_samples(test.directory, backend).stacks
        if stacks:
            key = Key(test.result.test_id, backend.backend, backend.mode)
            found[key] = trimmed(stacks, LEAST)
    return found
