"""Write what a profiled test leaves: the backends' files as they came, and its record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.errors import SchedprofError, as_own
from pytest_schedprof.model.result import Result
from pytest_schedprof.storage.records import encode
from pytest_schedprof.storage.run_directory import RESULT_FILE, write

LOG_FILE = "scheduler.log"

Kept: TypeAlias = dict[Path, RawProfile]
"""Files that have been written, with what they hold, so that none is written twice."""


def keep_record(directory: Path | None, result: Result) -> None:
    """Write the record into the directory, if there is one.

    Raises:
        ArtifactError: if it cannot be written.
    """
    if directory is not None:
        write(directory / RESULT_FILE, encode(result))


def keep_log(directory: Path | None, log: bytes, errors: list[SchedprofError]) -> None:
    """Write the log of a scheduler that was lost, which is deleted with its cluster."""
    if directory is None or not log:
        return
    try:
        write(directory / LOG_FILE, log)
    except SchedprofError as error:
        errors.append(error)


def keep_files(
    directory: Path | None,
    target: str,
    backend: Backend,
    raws: Sequence[RawProfile],
    errors: list[SchedprofError],
    written: Kept,
) -> tuple[str, ...]:
    """Write a target's files before they are read, so that unreadable ones are kept too.

    Args:
        errors: gets what keeps a file from being written; the files after it are left out.
        written: files that exist already, and gets those that are written.

    Returns:
        The names of the files in the directory; none without a directory.
    """
    if directory is None:
        return ()
    kept: list[str] = []
    for stem, raw in _stems(directory, target, raws):
        try:
            kept.append(keep_raw(stem, backend, raw, written))
            for suffix, content in backend.extras(raw.content).items():
                path = _with_suffix(stem, suffix)
                write(path, content)
                kept.append(path.name)
        except Exception as error:  # a full disk, or a tool that draws pictures
            errors.append(as_own(error))
            break
    return tuple(kept)


def keep_raws(
    directory: Path, target: str, backend: Backend, raws: Sequence[RawProfile], written: Kept
) -> None:
    """Write those files of a target that came from the backend itself.

    Raises:
        ArtifactError: if one cannot be written.
    """
    for stem, raw in _stems(directory, target, raws):
        keep_raw(stem, backend, raw, written)


def _stems(
    directory: Path, target: str, raws: Sequence[RawProfile]
) -> Iterator[tuple[Path, RawProfile]]:
    """Yield each file with its path without the suffix, which is numbered from the second on."""
    for number, raw in enumerate(raws, start=1):
        yield directory / (target if number == 1 else f"{target}.{number}"), raw


def keep_raw(stem: Path, backend: Backend, raw: RawProfile, written: Kept) -> str:
    """Write one file as it came, unless it is written already; return its name.

    Raises:
        ArtifactError: if it cannot be written.
    """
    path = _with_suffix(stem, backend.suffix)
    if written.get(path) is not raw:
        write(path, raw.content)
        written[path] = raw
    return path.name


def _with_suffix(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")
