"""The sources of functions, kept once for a run and for each place that code was loaded from.

A line of a file is one function. Sessions of pytest-xdist append to the same files. A baseline has
a copy of each session's, because it may be read where their runs are not.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.profile import Function, Stack
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.records import json_of
from pytest_schedprof.store.run_directory import make_directory, safe_name

DIRECTORY, ENDING = "sources", ".jsonl"


class Kept(msgspec.Struct, array_like=True):
    """One line of a file."""

    function: str
    file: str
    line: int
    text: str
    """Empty if the scheduler could not read it."""


def file_of(place: Folder, code: str) -> Folder:
    """Return the file of a run or baseline for code that was loaded from there."""
    known = code.encode("utf-8", "backslashreplace")  # as the record has it
    name = blake2b(known, digest_size=8).hexdigest()
    return place / DIRECTORY / f"{name}{ENDING}"


def read_sources(place: Folder, code: str) -> dict[Function, Source]:
    """Return the sources that a run or baseline has; a line that was cut off is left out."""
    of_run, sources = file_of(place, code), dict[Function, Source]()
    with suppress(ArtifactError):
        for file in of_run.parent.files(f"{of_run.name.removesuffix(ENDING)}*{ENDING}"):
            sources.update(_decoded(file.read()))  # later sessions have later names
    return sources


def _decoded(content: bytes) -> dict[Function, Source]:
    sources: dict[Function, Source] = {}
    for line in content.splitlines():
        try:
            kept = msgspec.json.decode(line, type=Kept)
        except UNREADABLE:
            continue
        sources[kept.function] = Source(kept.file, kept.line, kept.text)
    return sources


def _encoded(sources: Mapping[Function, Source]) -> bytes:
    kept = (Kept(name, source.file, source.line, source.text) for name, source in sources.items())
    return b"".join(json_of(line) + b"\n" for line in kept)


def take_sources(run: Folder, run_id: str, baseline: Folder) -> None:
    """Copy the sources of a run into a baseline, whose sessions may run on other machines.

    Raises:
        ArtifactError: if they cannot be read or written.
    """
    for file in run.files(f"{DIRECTORY}/*{ENDING}"):
        name = f"{file.name.removesuffix(ENDING)}.{safe_name(run_id)}{ENDING}"
        (baseline / DIRECTORY / name).write(_encoded(_decoded(file.read())))


def files_beside(baseline: Folder, run_id: str) -> list[Folder]:
    """Return the sources and stacks of a saved session."""
    name = safe_name(run_id)
    sources = baseline.files(f"{DIRECTORY}/*.{name}{ENDING}")
    return [*sources, *baseline.files(f"{STACKS}/{name}{STACKS_ENDING}")]


def add_sources(run: Path, code: str, sources: Mapping[Function, Source]) -> None:
    """Add sources to those of a run.

    Raises:
        ArtifactError: if they cannot be written.
    """
    path = Path(str(file_of(Folder(str(run)), code)))
    make_directory(path.parent)
    try:
        # In one call, so that lines of several processes do not mix.
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(opened, _encoded(sources))
        finally:
            os.close(opened)
    except OSError as error:
        raise ArtifactError(f"schedprof: cannot write {str(path)!r}: {error.strerror}") from error


STACKS, STACKS_ENDING = "stacks", ".json.gz"
VERSION, MOST_BYTES = 1, 2**28

DAMAGED = (*UNREADABLE, IndexError, ValueError)
"""Raised for what is no file of stacks, for a function that it lacks, and for a row without a
count."""


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


def stacks_file_of(baseline: Folder, run_id: str) -> Folder:
    """Return the file of a saved session."""
    return baseline / STACKS / f"{safe_name(run_id)}{STACKS_ENDING}"


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
                [count, *(functions.setdefault(name, len(functions)) for name in stack)]
                for stack, count in counts.items()
            ],
        )
        for key, counts in stacks.items()
    ]
    content = msgspec.json.encode(_File(VERSION, list(functions), tests))
    stacks_file_of(baseline, run_id).write(gzip.compress(content, mtime=0))


def read_stacks(baseline: Folder) -> dict[Key, Counter[Stack]]:
    """Return the newest stacks of each test; a file that cannot be read is left out."""
    stacks: dict[Key, Counter[Stack]] = {}
    with suppress(ArtifactError):
        for file in baseline.files(f"{STACKS}/*{STACKS_ENDING}"):
            with suppress(ArtifactError, OSError, EOFError, zlib.error, *DAMAGED):
                with gzip.open(BytesIO(file.read())) as unpacked:  # cut, it is no JSON
                    content = msgspec.json.decode(unpacked.read(MOST_BYTES), type=_File)
                of_file = {
                    Key(kept.test_id, kept.backend, kept.mode): Counter(
                        {
                            tuple(content.functions[i] for i in indexes): count
                            for count, *indexes in kept.stacks
                        }
                    )
                    for kept in content.tests
                }
                stacks.update(of_file)
    return stacks
