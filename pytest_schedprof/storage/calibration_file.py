"""Read and write calibration.json, which comparisons use to know a machine's noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.model.calibration import Calibration, Calibrations
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.records import decode, encode
from pytest_schedprof.storage.run_directory import check_room, make_directory

KEPT = 5
"""Calibrations kept for each place: noise that lasts for hours shows only between several."""


def file_in(directory: str) -> Folder:
    """Return the place of the file."""
    return Folder(directory) / "calibration.json"


def load_calibrations(directory: str) -> tuple[Calibration, ...]:
    """Return all calibrations, the newest last; none without a file.

    Raises:
        BaselineError: for a corrupt, too old or too new file; says which.
    """
    file = file_in(directory)
    try:
        if not file.is_file():
            return ()
        return decode(file.read(), str(file), Calibrations).calibrations
    except ArtifactError as error:
        raise BaselineError(
            f"{error}; or remove it and measure again with `schedprof calibrate`"
        ) from error


def check_place(directory: str) -> None:
    """Raise an error if the file could not be written, or cannot be read."""
    file = file_in(directory)
    if not file.is_url:
        make_directory(Path(directory))
        check_room(Path(file.place))
    load_calibrations(directory)


def save_calibration(directory: str, new: Calibration) -> Folder:
    """Add a calibration to the others; return the place of the file.

    Raises:
        ArtifactError: if it cannot be written.
    """
    file = file_in(directory)
    with file.parent.locked():  # several may be measured at a time
        kept = _newest((*load_calibrations(directory), new))
        file.write(encode(Calibrations(kept)))
    return file


def _newest(all_of_them: Sequence[Calibration]) -> tuple[Calibration, ...]:
    """Return the newest few of each place, in their order."""
    kept: list[Calibration] = []
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in reversed(all_of_them):
        counts[each.place] += 1
        if counts[each.place] <= KEPT:
            kept.insert(0, each)
    return tuple(kept)
