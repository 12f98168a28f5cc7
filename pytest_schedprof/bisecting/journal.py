"""The journal of a search: what each version gave, so that a killed search goes on."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.storage.run_directory import make_directory

NAME = "journal.jsonl"
RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Entry:
    """One version that was measured, or could not be."""

    version: str
    took: float
    trouble: str = ""
    """Why there are no figures; empty if there are."""


class Journal:
    """A file with one line for each version; a version is in it when its results are complete."""

    def __init__(self, place: Path, *, is_anew: bool = False) -> None:
        self.place = place
        if is_anew:
            shutil.rmtree(place, ignore_errors=True)
        make_directory(place)
        self.entries = {each.version: each for each in self._read()}

    def results(self, version: str) -> Path:
        """Return the directory of a version's results."""
        return self.place / RESULTS / version

    def write(self, entry: Entry, *, is_lasting: bool = True) -> None:
        """Add an entry, and a line to the file unless another attempt may end differently.

        Raises:
            ArtifactError: if it cannot be written.
        """
        self.entries[entry.version] = entry
        if not is_lasting:
            return
        try:
            with (self.place / NAME).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry)) + "\n")
        except OSError as error:
            raise ArtifactError(
                f"schedprof: cannot write {str(self.place / NAME)!r}: {error.strerror}"
            ) from error

    def _read(self) -> list[Entry]:
        """Read all lines; one that a killed search left unfinished is of a version to repeat."""
        try:
            lines = (self.place / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        return [entry for line in lines if (entry := _entry(line)) and self._is_kept(entry)]

    def _is_kept(self, entry: Entry) -> bool:
        return bool(entry.trouble) or self.results(entry.version).is_dir()


def _entry(line: str) -> Entry | None:
    try:
        told = json.loads(line)
        return Entry(str(told["version"]), float(told["took"]), str(told["trouble"]))
    except (ValueError, TypeError, KeyError):
        return None
