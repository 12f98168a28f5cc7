"""calibration.json: what was measured of machines, for comparisons to come."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.model.calibration import Calibration, Calibrations
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.records import decode, encode
from pytest_schedprof.storage.run_directory import check_room, make_directory

KEPT = 5
"""Of each place: noise that lasts for hours shows only between calibrations."""


def file_in(directory: str) -> Folder:
    """Where it is kept."""
    return Folder(directory) / "calibration.json"


def load_calibrations(directory: str) -> tuple[Calibration, ...]:
    """All that is known, the newest last; without a file nothing.

    Raises:
        BaselineError: tells a corrupt, too old and too new file apart.
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
    """Raises an error if nothing could be kept there, or what is there is not to be read."""
    file = file_in(directory)
    if not file.is_url:
        make_directory(Path(directory))
        check_room(Path(file.place))
    load_calibrations(directory)


def save_calibration(directory: str, new: Calibration) -> Folder:
    """Add it to the others; where it was kept.

    Raises:
        ArtifactError: if it cannot be written.
    """
    kept: list[Calibration] = []
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in (new, *reversed(load_calibrations(directory))):
        counts[each.place] += 1
        if counts[each.place] <= KEPT:
            kept.insert(0, each)
    file = file_in(directory)
    file.write(encode(Calibrations(tuple(kept))))
    return file
