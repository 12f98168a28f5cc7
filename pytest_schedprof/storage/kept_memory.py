"""Memory of workers that was kept as evidence of a test, on each of its sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.storage.reading import read_kept
from pytest_schedprof.storage.run_directory import AGAINST, NULL, RUN_FILE, side_word
from pytest_schedprof.storage.runs import KeptTest

FILE = "memory.json"


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """What the workers of one side of a test held."""

    test_id: str
    run: str
    """Name of the run; of a test that is in no run, its directory."""
    side: str
    """What the side is called; empty for a test that ran on one side only."""
    samples: tuple[MemorySamples, ...]


def kept_memory(test: KeptTest) -> Iterator[KeptMemory]:
    """Yield what a test kept of each side; nothing if it has no such evidence.

    Raises:
        ArtifactError: if it cannot be read.
    """
    places = {name: test.path / name for name in ("", AGAINST, NULL)}
    files = {name: path / FILE for name, path in places.items() if (path / FILE).is_file()}
    there = {name: samples for name, file in files.items() if (samples := _read(file))}
    for name, samples in there.items():
        side = side_word(name, test.result.baseline) if len(there) > 1 else ""
        yield KeptMemory(test.result.test_id, _run_of(test.path), side, samples)


def _run_of(path: Path) -> str:
    directories = (each.name for each in path.parents if (each / RUN_FILE).is_file())
    return next(directories, str(path))


def _read(path: Path) -> tuple[MemorySamples, ...]:
    try:
        return msgspec.json.decode(read_kept(path), type=tuple[MemorySamples, ...])
    except UNREADABLE as error:
        raise ArtifactError(f"schedprof: {str(path)!r} is corrupt: {error}") from error
