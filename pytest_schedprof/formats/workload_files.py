"""Recorded workloads as users name them: a file, or a pattern for the files of one recording."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, SettingsError, printable
from pytest_schedprof.formats.shipped import place_of
from pytest_schedprof.formats.workload import MAGIC, read_workload
from pytest_schedprof.model.parts import joined
from pytest_schedprof.model.workload import Workload


def files_of(text: str) -> list[Path]:
    """Return the files that a name or a pattern such as `monday-*.schedprof` stands for.

    The name of a recorded workload that the package ships stands for its file.
    """
    found = glob.glob(text) if glob.has_magic(text) and not os.path.exists(text) else []
    return [Path(each) for each in sorted(found)] or [place_of(text)]


def check_files(text: str) -> None:
    """Look at the begin of each file.

    Raises:
        SettingsError: one cannot be read.
        ArtifactError: one is something else.
    """
    for path in files_of(text):
        try:
            with path.open("rb") as file:
                begin = file.read(len(MAGIC))
        except OSError as error:
            raise _unreadable(path, error) from None
        if begin != MAGIC:
            raise ArtifactError(f"schedprof: {path} is no recorded workload")


def read_files(text: str) -> Workload:
    """Read the workload of a file, or of all files of a recording.

    Raises:
        SettingsError: one cannot be read.
        ArtifactError: one is something else, or they are of different recordings.
    """
    parts = [read_workload(_content(path), str(path)) for path in files_of(text)]
    try:
        return joined(parts)
    except ValueError as error:
        raise ArtifactError(f"schedprof: {text}: {error}") from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> SettingsError:
    name = printable(f"{path}", keep="")
    return SettingsError(
        f"schedprof: the workload {name} cannot be read: {error.strerror or error}"
    )
