"""JSON files of our own that more rooms than one backend read: counts and decisions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pytest_schedprof.formats import read_json
from pytest_schedprof.model.decisions import Decided


class SpanFile(msgspec.Struct, frozen=True):
    """Counts for the spans of one name."""

    name: tuple[str, ...]
    tasks: int
    functions: dict[str, dict[str, int]]


class CountsFile(msgspec.Struct, frozen=True):
    """Counts over one recording."""

    schedprof_counts: int
    """Version of the format."""
    python: str
    """Python's version; bytecodes of two minor versions are never compared."""
    functions: dict[str, dict[str, int]]
    whole: dict[str, int]
    code: dict[str, str] = {}
    """Digests of each function's code, with spaces between them; empty in older files."""
    callers: dict[str, dict[str, int]] = {}
    """Calls of each function by the function that called it; empty if they were not counted."""
    lines: dict[str, dict[int, int]] = {}
    """Instructions of each function by the line of its file; empty if they were not counted."""
    spans: list[SpanFile] = []
    """The same counts for the spans of each name; empty if they were not told apart."""


def read_counts(content: bytes) -> CountsFile:
    """Parse a file of counts.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    return read_json(content, CountsFile, "counts")


def with_more(
    content: bytes, more: Mapping[str, Mapping[str, int]], code: Mapping[str, str]
) -> bytes:
    """Return a file of counts with further counts of functions, of metrics that it does not have.

    And with the digests of functions that it does not have.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    file = read_counts(content)
    functions = {name: dict(counts) for name, counts in file.functions.items()}
    for name, counts in more.items():
        functions.setdefault(name, {}).update(counts)
    ordered = dict(sorted(functions.items()))
    changed = msgspec.structs.replace(file, functions=ordered, code={**code, **file.code})
    return msgspec.json.encode(changed)


def read_decisions(content: bytes) -> Decided:
    """Parse a file of decisions.

    Raises:
        FormatError: if it is none.
    """
    return read_json(content, Decided, "decisions")
