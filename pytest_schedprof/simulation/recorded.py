"""What tasks took in a recorded workload, for hollow workers that run them again."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.shipped import place_of
from pytest_schedprof.formats.workload import MAGIC, read_workload
from pytest_schedprof.model.workload import Result


class RecordedTasks:
    """Results by the names that tasks have in a replay; read when the first task runs."""

    def __init__(self, path: str) -> None:
        """Look at the begin of the file.

        Args:
            path: of the file, or the name of a recorded workload that is shipped.

        Raises:
            SettingsError: it cannot be read, or is something else.
        """
        self._path = place_of(path)
        try:
            with self._path.open("rb") as file:
                begin = file.read(len(MAGIC))
        except OSError as error:
            raise SettingsError(
                f"schedprof: cluster option workload: {path} cannot be read: "
                f"{error.strerror or error}"
            ) from None
        if begin != MAGIC:
            raise SettingsError(
                f"schedprof: cluster option workload: {path} is no recorded workload"
            )

    def of(self, key: Any) -> Result | None:
        """Return how a task ended in reality."""
        return self._results.get(key)

    @cached_property
    def _results(self) -> dict[Any, Result]:
        workload = read_workload(self._path.read_bytes(), str(self._path))
        return {
            task.group.key(task.number): workload.results[task.number]
            for task in workload.tasks()
            if task.number in workload.results
        }


class NoRecordedTasks:
    """No recorded workload: all tasks have the durations and sizes of the other traits."""

    def of(self, key: Any) -> Result | None:
        """Return None."""
        return None
