"""Stacks of a baseline, so that differences can be drawn when its run is gone.

A baseline has one file for each session that was saved, without times and lines.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.profile import Function, Stack
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.run_directory import safe_name

DIRECTORY, ENDING = "stacks", ".json.gz"
VERSION = 1


class Key(NamedTuple):
    """Whose stacks they are."""

    test_id: str
    backend: str
    mode: str


class _Kept(msgspec.Struct, array_like=True):
    test_id: str
    backend: str
    mode: str
    stacks: list[list[int]]
    """A count, and the indexes of the functions of its stack."""


class _File(msgspec.Struct):
    schedprof_stacks: int
    functions: list[Function]
    tests: list[_Kept]


Stacks = Mapping[Key, Mapping[Stack, int]]


def file_of(baseline: Folder, run_id: str) -> Folder:
    """Return the file of a saved session."""
    return baseline / DIRECTORY / f"{safe_name(run_id)}{ENDING}"


def write_stacks(baseline: Folder, run_id: str, stacks: Stacks) -> None:
    """Write the stacks of a session.

    Raises:
        ArtifactError: if they cannot be written.
    """
    functions: dict[Function, int] = {}
    tests = [
        _Kept(
            *key,
            [
                [count, *(functions.setdefault(each, len(functions)) for each in stack)]
                for stack, count in counts.items()
            ],
        )
        for key, counts in stacks.items()
    ]
    content = msgspec.json.encode(_File(VERSION, list(functions), tests))
    file_of(baseline, run_id).write(gzip.compress(content, mtime=0))


def read_stacks(baseline: Folder) -> dict[Key, Counter[Stack]]:
    """Return the newest stacks of each test; a file that cannot be read is left out."""
    found: dict[Key, Counter[Stack]] = {}
    with suppress(ArtifactError):
        for file in sorted(baseline.files(f"{DIRECTORY}/*{ENDING}"), key=lambda each: each.name):
            with suppress(ArtifactError, OSError, EOFError, zlib.error, *UNREADABLE, IndexError):
                content = msgspec.json.decode(gzip.decompress(file.read()), type=_File)
                found.update(_decoded(content))
    return found


def _decoded(file: _File) -> dict[Key, Counter[Stack]]:
    return {
        Key(kept.test_id, kept.backend, kept.mode): Counter(
            {tuple(file.functions[i] for i in indexes): count for count, *indexes in kept.stacks}
        )
        for kept in file.tests
    }
