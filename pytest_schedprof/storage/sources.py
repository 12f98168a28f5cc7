"""The sources of functions, kept once for a run and for each place that code was loaded from.

A line of a file is one function. Sessions of pytest-xdist append to the same files. A baseline has
a copy, because it may be read where its run is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.profile import Function
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.run_directory import make_directory

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
    name = blake2b(code.encode(), digest_size=8).hexdigest()
    return place / DIRECTORY / f"{name}{ENDING}"


def read_sources(place: Folder, code: str) -> dict[Function, Source]:
    """Return the sources that a run or baseline has; a line that was cut off is left out."""
    file = file_of(place, code)
    try:
        return _decoded(file.read()) if file.exists() else {}
    except ArtifactError:
        return {}


def _decoded(content: bytes) -> dict[Function, Source]:
    found: dict[Function, Source] = {}
    for line in content.splitlines():
        try:
            kept = msgspec.json.decode(line, type=Kept)
        except UNREADABLE:
            continue
        found[kept.function] = Source(kept.file, kept.line, kept.text)
    return found


def _encoded(sources: Mapping[Function, Source]) -> bytes:
    kept = (Kept(name, each.file, each.line, each.text) for name, each in sources.items())
    return b"".join(msgspec.json.encode(each) + b"\n" for each in kept)


def take_sources(run: Folder, baseline: Folder) -> None:
    """Add the sources of a run to those of a baseline, whose own are older.

    Raises:
        ArtifactError: if they cannot be read or written.
    """
    for file in run.files(f"{DIRECTORY}/*{ENDING}"):
        place = baseline / DIRECTORY / file.name
        known = _decoded(place.read()) if place.exists() else {}
        place.write(_encoded({**known, **_decoded(file.read())}))


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
