"""Read and write the versioned records: result.json, run.json, and baselines."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.comparison import AcceptedFigure, Change
from pytest_schedprof.model.explanation import Cause
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.result import SCHEMA_VERSION, Result
from pytest_schedprof.model.run import BaselinePart, Commit, Run, StoredResult, TestEntry
from pytest_schedprof.store.places import is_below, read_kept
from pytest_schedprof.store.run_directory import RUN_FILE, RunDirectory, write

MOST = 1e18
"""Largest number in a record: products of several are still far from what a float can hold."""

ALIKE = bytes.maketrans(b"123456789E", b"000000000e")
"""Makes all digits the same one, as both letters that an exponent may begin with."""


def _faults(content: bytes, record: Result | Run | BaselinePart) -> Iterator[str]:
    """Yield what is wrong with a record that was decoded from the content."""
    if _may_be_large(content) and max(map(abs, _numbers(content))) > MOST:
        yield f"it holds a number above {MOST:g}"
    if isinstance(record, Run):
        names = (test.directory for test in record.tests if test.directory)
        yield from (f"{name!r} is outside of the run" for name in names if not is_below(name))
    results = record.results if isinstance(record, BaselinePart) else (record,)
    for result in results:
        if isinstance(result, Result):
            yield from _faults_of_result(result)


def _faults_of_result(result: Result) -> Iterator[str]:
    named = [backend.artifacts for backend in result.backends]
    named += [evidence.artifacts for evidence in result.evidence]
    for name in chain.from_iterable(named):
        if not is_below(name):
            yield f"{name!r} is outside of the test's directory"
    for comparison in result.comparisons:
        figures: Iterable[Change | Cause | AcceptedFigure] = chain(
            comparison.changes, comparison.wholes, comparison.causes, comparison.accepted
        )
        for figure in figures:
            if figure.metric not in METRICS:
                yield f"the metric {figure.metric!r} is unknown to this release"


def _may_be_large(content: bytes) -> bool:
    """Whether the content may have a number above `MOST`: most records are told by bytes alone."""
    digits = content.translate(ALIKE, b"+")
    if any(
        digits[place - 1 : place] != b"." for place in _places(digits, b"0" * 19)
    ):  # not of a fraction
        return True
    heads = (digits[max(place - 40, 0) : place].rstrip(b"0.") for place in _places(digits, b"0e00"))
    return any(not head or head[-1] in b":,[- \n\r\t" for head in heads)  # not digits of a hash


def _places(content: bytes, part: bytes) -> Iterator[int]:
    place = content.find(part)
    while place >= 0:
        yield place
        place = content.find(part, place + len(part))


def _numbers(content: bytes) -> Iterator[float]:
    """Yield all numbers of JSON; generators in generators would take four times as long."""
    values = [msgspec.json.decode(content)]
    for value in values:  # which grows
        if isinstance(value, dict):
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
        elif isinstance(value, (int, float)):
            yield value


TIMEOUT_S = 5
"""Time limit for each call of git, which may take minutes on a network drive."""

CI_BRANCHES = (
    "GITHUB_HEAD_REF",  # the branch of a pull request, where GITHUB_REF_NAME is 12/merge
    "GITHUB_REF_NAME",
    "CI_COMMIT_REF_NAME",
    "BUILDKITE_BRANCH",
    "CIRCLE_BRANCH",
    "BITBUCKET_BRANCH",
    "BUILD_SOURCEBRANCHNAME",
)
"""Variables in which CI services name the branch; they check out a commit and no branch."""


def commit_of(directory: Path) -> Commit | None:
    """Return the commit that is checked out; None without git, a repository or a commit."""
    line = _git(directory, "log", "-1", "--no-show-signature", "--format=%H %ct") or ""
    sha, _, seconds = line.partition(" ")
    if not seconds.isdecimal():
        return None
    time = datetime.fromtimestamp(int(seconds), UTC).isoformat()
    branch = _git(directory, "symbolic-ref", "--quiet", "--short", "HEAD")
    branch = branch or next(filter(None, map(os.environ.get, CI_BRANCHES)), "")
    # Untracked files do not count as changes: caches and results are everywhere.
    is_dirty = _git(directory, "status", "--porcelain", "--untracked-files=no") != ""
    return Commit(sha, branch, time, is_dirty)


def _git(directory: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it fails."""
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=True
        )
    except Exception:  # without git it is an OSError; a test may have patched Popen to raise any
        return None
    return process.stdout.decode("utf-8", "replace").strip()


_DEEP_BREAK = re.compile(rb"\n(?: {12,}| {10}(?=[]}]))")
"""A break of a line inside an item of a list five levels deep, such as a function. Strings of JSON
have none."""

Record = TypeVar("Record", Result, Run, BaselinePart)


def begin_run(run: RunDirectory, started_at: float, tests_in: Path) -> None:
    """Write run.json of a session that has not ended, unless another process of it has done so.

    Raises:
        ArtifactError: if it cannot be written.
    """
    if not (run.path / RUN_FILE).exists():
        _write_run(run, _run(run, started_at, tests_in))


def write_run(
    run: RunDirectory,
    started_at: float,
    exit_status: int,
    stored: Iterable[StoredResult],
    tests_in: Path,
    unmatched: Iterable[str] = (),
) -> None:
    """Write run.json: every profiled test of the session, and the commit of the tests.

    Raises:
        ArtifactError: if it cannot be written.
    """
    try:
        record = read_record(run.path / RUN_FILE, Run)
    except ArtifactError:
        record = _run(run, started_at, tests_in)
    tests = []
    for test in stored:
        directory = os.path.relpath(test.directory, run.path) if test.directory else ""
        tests.append(replace(entry_of(test.result, directory), figures=test.figures))
    record = replace(
        record, exit_status=exit_status, tests=tuple(tests), unmatched=tuple(unmatched)
    )
    _write_run(run, record)


def _run(run: RunDirectory, started_at: float, tests_in: Path) -> Run:
    moment = datetime.fromtimestamp(started_at, UTC).isoformat()
    return Run(run.run_id, moment, exit_status=None, commit=commit_of(tests_in))


def _write_run(run: RunDirectory, record: Run) -> None:
    write(run.path / RUN_FILE, encode(record), is_durable=True)


def entry_of(result: Result, directory: str) -> TestEntry:
    """Return the entry of a test in its run, without figures."""
    return TestEntry(result.test_id, result.outcome, result.verdict, directory)


class _Version(msgspec.Struct):
    schema_version: int


def encode(record: Result | Run | BaselinePart | StoredResult) -> bytes:
    """Return the record as JSON, indented, with one line for each of the many functions."""
    return _DEEP_BREAK.sub(b" ", indented(record)) + b"\n"


def indented(value: object) -> bytes:
    """Return data as JSON, indented; bytes of a name that are not UTF-8 are escaped."""
    return msgspec.json.format(json_of(value), indent=2)


def json_of(value: object) -> bytes:
    """Return data as JSON; bytes of a name that are not UTF-8 are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # such as the ID of a test in a file of such a name
        return msgspec.json.encode(_escaped(msgspec.to_builtins(value)))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value


VERSION_AT_END = re.compile(rb'"schema_version": ?(\d{1,9})\s*}\s*\Z')
"""Matches it where it is written, so that few records are read twice."""


def read_record(path: Path, kind: type[Record]) -> Record:
    """Read a record from a file.

    Raises:
        ArtifactError: for a missing, corrupt, too old or too new file; says which.
    """
    return decode(read_kept(path), str(path), kind)


def decode(content: bytes, place: str, kind: type[Record]) -> Record:
    """Decode a record; the place is for messages.

    Raises:
        ArtifactError: for a corrupt, too old or too new record; says which.
    """
    try:
        end = VERSION_AT_END.search(content[-60:])
        version = int(end[1]) if end else msgspec.json.decode(content, type=_Version).schema_version
        if version == SCHEMA_VERSION:
            record = msgspec.json.decode(content, type=kind)
            if fault := next(_faults(content, record), ""):
                raise ArtifactError(f"schedprof: {place!r} is corrupt: {fault}")
            return record
    except UNREADABLE as error:
        raise ArtifactError(f"schedprof: {place!r} is corrupt: {error}") from error
    if version > SCHEMA_VERSION:
        raise ArtifactError(
            f"schedprof: {place!r} has schema version {version}, this release reads up to "
            f"{SCHEMA_VERSION}: upgrade pytest-schedprof"
        )
    raise ArtifactError(
        f"schedprof: {place!r} has schema version {version}, which is too old: create it again"
    )
