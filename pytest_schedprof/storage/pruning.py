"""Remove old runs. Directories that are not certainly runs of this package are kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.storage.run_directory import RUN_FILE
from pytest_schedprof.storage.runs import LATEST, KeptRun, runs_in

RUNNING_S = 24 * 3600.0
"""A session that wrote nothing for so long has been killed."""


def removable(directory: Path, keep: int) -> list[KeptRun]:
    """Return all runs but the newest so many, the oldest first; the newest one always stays.

    Runs whose directory was renamed or is a link are left alone: a user did that on purpose. Runs
    whose session may still be running neither count nor are removed.
    """
    latest = (directory / LATEST).resolve()
    mine = [each for each in runs_in(directory) if _is_ours(each) and not _may_be_running(each)]
    old = mine[: -max(keep, 1)]
    return [each for each in old if each.path.resolve() != latest]


def _is_ours(run: KeptRun) -> bool:
    return run.path.name == run.record.run_id and not run.path.is_symlink()


def _may_be_running(run: KeptRun) -> bool:
    """Whether the session has not said that it ended, and wrote a file not long ago."""
    if run.record.exit_status is not None:
        return False
    written = (each.lstat().st_mtime for each in _files(run.path))
    return time.time() - max(written, default=0.0) < RUNNING_S


def size(run: KeptRun) -> int:
    """Return the total size of a run's files in bytes."""
    total = 0
    for file in _files(run.path):
        with suppress(FileNotFoundError):  # another process removes it too
            total += file.lstat().st_size
    return total


def _files(path: Path) -> Iterator[Path]:
    return (each for each in path.rglob("*") if each.is_symlink() or each.is_file())


def remove(run: KeptRun) -> None:
    """Remove a run, its record last, so that an interrupted removal can be repeated.

    Raises:
        ArtifactError: if it cannot be removed.
    """
    try:
        for each in run.path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != RUN_FILE:
                each.unlink()
        shutil.rmtree(run.path)
    except OSError as error:
        raise ArtifactError(
            f"schedprof: cannot remove {str(run.path)!r}: {error.strerror} ({error.filename})"
        ) from error
