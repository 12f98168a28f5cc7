"""What tasks took in a recorded workload, for hollow workers that run them again."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from pytest_schedprof.errors import SchedprofError, SettingsError
from pytest_schedprof.formats.workload_files import check_files, read_files
from pytest_schedprof.model.workforce import Workforce, workforce_of
from pytest_schedprof.model.workload import Result, Task, Workload


class RecordedTasks:
    """Results by the names that tasks have in a replay; read when they are first needed."""

    def __init__(self, path: str) -> None:
        """Look at the begin of the file, or of the files of a pattern.

        Args:
            path: of the file, or the name of a recorded workload that is shipped.

        Raises:
            SettingsError: it cannot be read, or is something else.
        """
        self._path = path
        try:
            check_files(path)
        except SchedprofError as error:
            text = str(error).removeprefix("schedprof: ")
            raise SettingsError(f"schedprof: cluster option workload: {text}") from None

    def of(self, key: Any) -> Result | None:
        """Return how a task ended in reality."""
        return self._results.get(key)

    @property
    def bandwidth(self) -> float:
        """Bytes per second of transfers, 0 if that is not known."""
        return self._workload.bandwidth

    @property
    def workforce(self) -> Workforce:
        """The workers that there were."""
        return workforce_of(self._workload)

    @cached_property
    def _workload(self) -> Workload:
        return read_files(self._path)

    @cached_property
    def _results(self) -> dict[Any, Result]:
        workload = self._workload
        return {
            task.group.key(task.number): _as_retried(task, workload.results[task.number])
            for task in workload.tasks()
            if task.number in workload.results
        }


def _as_retried(task: Task, result: Result) -> Result:
    """Return a result with as many failed runs as the task's retries allow.

    Others came before a client asked again for a task that had failed for good.
    """
    if not result.failed:
        return result
    first = max(0, len(result.failed) - task.annotations.get("retries", 0))
    return replace(result, failed=result.failed[first:])


class NoRecordedTasks:
    """No recorded workload: all tasks have the durations and sizes of the other traits."""

    bandwidth = 0.0

    def of(self, key: Any) -> Result | None:
        """Return None."""
        return None
