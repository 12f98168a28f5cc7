"""The files into which a recording is written."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_schedprof.formats.workload import MAGIC


class RecordingFiles:
    """A file that grows by whole blocks; what was written is there if the process is killed.

    If it is to be followed by others, they have numbers in their names.
    """

    def __init__(self, path: Path, *, is_numbered: bool) -> None:
        """Create the file.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        self._path = path
        self._number = last_number(path) + 1 if is_numbered else 0
        self._open()

    @property
    def name(self) -> Path:
        """The name of the file that is being written."""
        return numbered(self._path, self._number) if self._number else self._path

    def _open(self) -> None:
        self._file = self.name.open("xb", buffering=0)
        try:
            self.write(MAGIC)
        except OSError:
            self.close()
            self.name.unlink()  # readers of the recording's other files would refuse an empty one
            raise

    def begin_next(self) -> None:
        """Close the file, and open the next one."""
        self._file.close()
        self._number += 1
        self._open()

    def write(self, content: bytes) -> None:
        """Write all of it; if it does not fit, nothing stays."""
        begun = self._file.tell()
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(self._file.fileno(), left) :]
        except OSError:
            self._file.truncate(begun)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def numbered(path: Path, number: int | str) -> Path:
    """Return the name of a file of a recording that has several, or the pattern for `*`."""
    text = f"{number:04}" if isinstance(number, int) else number
    return path.with_name(f"{path.stem}-{text}{path.suffix}")


def last_number(path: Path) -> int:
    """Return the highest number of files of that name, so that none is overwritten."""
    found = (each.stem.rpartition("-")[2] for each in path.parent.glob(f"*{path.suffix}")
             if each.stem.rpartition("-")[0] == path.stem)  # fmt: skip
    return max((int(each) for each in found if each.isdigit()), default=0)
