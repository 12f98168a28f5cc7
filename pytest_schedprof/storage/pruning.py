"""Old runs that are removed. What is not surely a run of ours stays."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.storage.runs import LATEST, RUN, KeptRun, runs_in


def superfluous(directory: Path, keep: int) -> list[KeptRun]:
    """Runs that are older than the newest so many, the oldest first; the newest always stays.

    A run whose directory was given another name, or is a link, is somebody's own.
    """
    latest = (directory / LATEST).resolve()
    mine = [each for each in runs_in(directory) if _is_ours(each)]
    old = mine[: -max(keep, 1)]
    return [each for each in old if each.path.resolve() != latest]


def _is_ours(run: KeptRun) -> bool:
    return run.path.name == run.record.run_id and not run.path.is_symlink()


def size(run: KeptRun) -> int:
    """Bytes of its files."""
    total = 0
    for file in _files(run.path):
        with suppress(FileNotFoundError):  # somebody else removes it too
            total += file.lstat().st_size
    return total


def _files(path: Path) -> Iterator[Path]:
    return (each for each in path.rglob("*") if each.is_symlink() or each.is_file())


def remove(run: KeptRun) -> None:
    """Remove it, its record last: so what is interrupted can be done again.

    Raises:
        ArtifactError: if it cannot be removed.
    """
    try:
        for each in run.path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != RUN:
                each.unlink()
        shutil.rmtree(run.path)
    except OSError as error:
        raise ArtifactError(
            f"schedprof: cannot remove {str(run.path)!r}: {error.strerror} ({error.filename})"
        ) from error
