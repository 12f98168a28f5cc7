"""Every run below a directory, or below any URL that fsspec can list."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.model.result import Result, Run
from pytest_schedprof.storage.records import T, decode

RUN, RESULT = "run.json", "result.json"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run and the results of its tests that could be read."""

    run: Run
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    run: Run
    when: datetime


class Archive:
    """Runs that others stored; what cannot be read is told and passed over.

    Raises:
        ArtifactError: if the place cannot be listed, or nothing in it can be read.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.skipped: list[str] = []
        self._files, self._root = _opened(place)

    def runs(self, *, branch: str = "", last: int = 0) -> list[StoredRun]:
        """In order of commits, and of their own where there are none.

        Args:
            branch: runs of other branches are left out.
            last: so many of the newest alone; 0 for all.
        """
        found = [each for path in self._paths() if (each := self._run(path))]
        if not found:
            raise ArtifactError("\n".join([f"schedprof: no run in {self.place!r}", *self.skipped]))
        chosen = [each for each in found if not branch or _branch(each.run) == branch]
        if not chosen:
            known = ", ".join(sorted({_branch(each.run) or "none" for each in found}))
            raise ArtifactError(
                f"schedprof: no run of branch {branch!r} in {self.place!r}, but of: {known}"
            )
        chosen.sort(key=lambda each: (each.when, each.run.started_at, each.run.run_id))
        return [StoredRun(each.run, tuple(self._results(each))) for each in chosen[-last:]]

    def _paths(self) -> Collection[str]:
        try:
            paths = self._files.find(self._root)
        except Exception as error:  # each file system has errors of its own
            raise _failure(self.place, error) from error
        return sorted(path for path in paths if posixpath.basename(path) == RUN)

    def _run(self, path: str) -> _Found | None:
        run = self._record(path, Run)
        if run is None:
            return None
        time = run.commit.time if run.commit else run.started_at
        try:
            return _Found(path, run, datetime.fromisoformat(time).astimezone())
        except (ValueError, OverflowError):
            self.skipped.append(f"schedprof: {path!r} is corrupt: {time!r} is no time")
            return None

    def _results(self, found: _Found) -> Iterator[Result]:
        for entry in found.run.tests:
            if entry.directory:  # of others nothing could be stored
                path = posixpath.join(posixpath.dirname(found.path), entry.directory, RESULT)
                if result := self._record(path, Result):
                    yield result

    def _record(self, path: str, kind: type[T]) -> T | None:
        try:
            return decode(self._files.cat_file(path), path, kind)
        except ArtifactError as error:
            self.skipped.append(_line(str(error)))
        except Exception as error:
            self.skipped.append(_line(str(_failure(path, error))))
        return None


def _branch(run: Run) -> str:
    return run.commit.branch if run.commit else ""


def _opened(place: str) -> tuple[Any, str]:
    """The file system, and the place in it."""
    from fsspec.core import url_to_fs

    try:
        files, root = url_to_fs(place)
        if not files.exists(root):
            raise ArtifactError(f"schedprof: there is no {place!r}")
    except ArtifactError:
        raise
    except Exception as error:
        raise _failure(place, error) from error
    return files, root


def _failure(place: str, error: Exception) -> ArtifactError:
    """An `OSError` may have no text, and others no more than one."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ArtifactError(_line(f"schedprof: cannot read {place!r}: {why}"))


def _line(text: str) -> str:
    return " ".join(text.split())
