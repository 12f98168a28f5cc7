"""result.json and run.json: versioned, with a published schema and a reader that explains."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pytest_schedprof.analysis.recent import setting_of
from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats.json import UNREADABLE
from pytest_schedprof.model.calibration import SCHEMA_VERSION as CALIBRATION_VERSION
from pytest_schedprof.model.calibration import Calibrations
from pytest_schedprof.model.result import SCHEMA_VERSION, Result
from pytest_schedprof.model.run import BaselinePart, Run, StoredResult, TestEntry
from pytest_schedprof.storage.commit import commit_of
from pytest_schedprof.storage.run_directory import RunDirectory, write

COMPACT = -1
"""Indent that leaves out even spaces."""

Record = TypeVar("Record", Result, Run, BaselinePart, Calibrations)


def write_run(
    run: RunDirectory,
    started_at: float,
    exit_status: int,
    stored: Iterable[StoredResult],
    tests_in: Path,
) -> None:
    """Write run.json, which names every profiled test of the session, and the commit of theirs."""
    record = Run(
        run_id=run.run_id,
        started_at=datetime.fromtimestamp(started_at, timezone.utc).isoformat(),
        exit_status=exit_status,
        tests=tuple(_entry(run, each) for each in stored),
        commit=commit_of(tests_in),
    )
    write(run.path / "run.json", encode(record))


def _entry(run: RunDirectory, stored: StoredResult) -> TestEntry:
    result = stored.result
    directory = os.path.relpath(stored.directory, run.path) if stored.directory else ""
    return TestEntry(
        result.test_id,
        result.outcome,
        result.verdict,
        directory,
        setting_of(result),
        stored.figures,
    )


class _Version(msgspec.Struct):
    schema_version: int


def encode(record: Result | Run | BaselinePart | Calibrations, *, indent: int = 2) -> bytes:
    """The record as JSON, for people unless it is `COMPACT`."""
    try:
        content = msgspec.json.encode(record)
    except UnicodeEncodeError:  # a file whose name is no UTF-8 gives such an ID
        content = msgspec.json.encode(_escaped(msgspec.to_builtins(record)))
    return msgspec.json.format(content, indent=indent) + b"\n"


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value


def read_record(path: Path, kind: type[Record]) -> Record:
    """Read a record back.

    Raises:
        ArtifactError: tells a missing, corrupt, too old and too new file apart.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"schedprof: cannot read {str(path)!r}: {error.strerror}") from error
    return decode(content, str(path), kind)


def decode(content: bytes, place: str, kind: type[Record]) -> Record:
    """A record from what was read at a place.

    Raises:
        ArtifactError: tells a corrupt, too old and too new record apart.
    """
    try:
        version = msgspec.json.decode(content, type=_Version).schema_version
        newest = CALIBRATION_VERSION if kind is Calibrations else SCHEMA_VERSION
        if version == newest:
            return msgspec.json.decode(content, type=kind)
    except UNREADABLE as error:
        raise ArtifactError(f"schedprof: {place!r} is corrupt: {error}") from error
    if version > newest:
        raise ArtifactError(
            f"schedprof: {place!r} has schema version {version}, this release reads up to "
            f"{newest}: upgrade pytest-schedprof"
        )
    raise ArtifactError(
        f"schedprof: {place!r} has schema version {version}, too old: make it again"
    )


def json_schema(kind: type[Result | Run | BaselinePart | Calibrations]) -> str:
    """The JSON Schema of a record, as published in docs/."""
    schema: dict[str, Any] = msgspec.json.schema(kind)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
