"""The sources of functions, kept once for a run and for each place that code was loaded from.

A line of a file is one function. Sessions of pytest-xdist append to the same files.
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
from pytest_schedprof.storage.reading import read_kept
from pytest_schedprof.storage.run_directory import make_directory

DIRECTORY = "sources"


class Kept(msgspec.Struct, array_like=True):
    """One line of a file."""

    function: str
    file: str
    line: int
    text: str
    """Empty if the scheduler could not read it."""


def file_of(run: Path, code: str) -> Path:
    """Return the file of a run for code that was loaded from this place."""
    return run / DIRECTORY / f"{blake2b(code.encode(), digest_size=8).hexdigest()}.jsonl"


def read_sources(run: Path, code: str) -> dict[Function, Source]:
    """Return the sources that a run has; a line that was cut off is left out."""
    try:
        content = read_kept(file_of(run, code))
    except ArtifactError:
        return {}
    found: dict[Function, Source] = {}
    for line in content.splitlines():
        try:
            kept = msgspec.json.decode(line, type=Kept)
        except UNREADABLE:
            continue
        found[kept.function] = Source(kept.file, kept.line, kept.text)
    return found


def add_sources(run: Path, code: str, sources: Mapping[Function, Source]) -> None:
    """Add sources to those of a run.

    Raises:
        ArtifactError: if they cannot be written.
    """
    encode = msgspec.json.encode
    lines = (encode(Kept(name, each.file, each.line, each.text)) for name, each in sources.items())
    path = file_of(run, code)
    make_directory(path.parent)
    try:
        # In one call, so that lines of several processes do not mix.
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(opened, b"".join(line + b"\n" for line in lines))
        finally:
            os.close(opened)
    except OSError as error:
        raise ArtifactError(f"schedprof: cannot write {str(path)!r}: {error.strerror}") from error
