"""The baseline of the default branch, from the archive that its job left."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile, ZipInfo

from pytest_schedprof.errors import ForgeError
from pytest_schedprof.forges.contract import Forge
from pytest_schedprof.storage.run_directory import make_directory, write

PARTS, SOURCES = ".json", ".jsonl"
"""Endings of the files of a baseline; those of sources are in a directory."""

MOST_BYTES = 2**31


def baseline_name(branch: str) -> str:
    """Return the name of a branch's baseline, which is neither a path nor a file."""
    name = re.sub(r"[^\w.-]+", "-", branch).strip("-.") or "default"
    return f"{name}-" if name.endswith(PARTS) else name


def fetch_baseline(forge: Forge, name: str, place: Path) -> int:
    """Put the files of the newest baseline into a directory; return how many there are.

    Args:
        forge: of the job.
        name: that the jobs were given.
        place: the baseline's directory.

    Raises:
        ForgeError: if the forge refuses, or what it sends is no archive.
        ArtifactError: if a file cannot be written.
    """
    with tempfile.TemporaryFile(prefix="schedprof-") as archive:
        if not forge.download_baseline(name, archive):
            return 0
        try:
            with ZipFile(archive) as opened:
                return sum(_keep(opened, each, place) for each in opened.infolist())
        except (BadZipFile, RuntimeError, NotImplementedError) as error:
            raise ForgeError(f"schedprof: the baseline of {name!r} is corrupt: {error}") from error


def _keep(archive: ZipFile, entry: ZipInfo, place: Path) -> bool:
    """Write one file of a baseline; anything else in the archive is left out."""
    within = _within(PurePosixPath(entry.filename.replace("\\", "/")), place.name)
    if within is None or entry.is_dir():
        return False
    if entry.file_size > MOST_BYTES:
        raise ForgeError(f"schedprof: {entry.filename!r} has {entry.file_size} bytes")
    path = place / within
    make_directory(path.parent)
    write(path, archive.read(entry))
    return True


def _within(path: PurePosixPath, name: str) -> str | None:
    """Return the path of a file within its baseline; None if it is none of this one's.

    An archive holds either the baseline alone, or all that the job kept. Only the last one or two
    names of a path are used, so none leads out of the directory.
    """
    names = path.parts
    if "baselines" in names:
        at = names.index("baselines")
        if names[at + 1 : at + 2] != (name,):
            return None
        names = names[at + 2 :]
    if len(names) == 1 and path.suffix == PARTS:
        return names[0]
    if len(names) == 2 and names[0] == "sources" and path.suffix == SOURCES:
        return f"{names[0]}/{names[1]}"
    return None
