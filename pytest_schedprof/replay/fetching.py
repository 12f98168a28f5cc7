"""Records a scheduler's workload from a client, into a file on the client's side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from distributed import Client

from pytest_schedprof.errors import ClusterError, SettingsError
from pytest_schedprof.replay.recorder import FLUSH_S, NAME, WorkloadRecorder
from pytest_schedprof.replay.writing import Outbox, RecordingFile

CONNECTING_S = 10.0


def connect(address: str) -> Client:
    """Connect to a scheduler.

    Raises:
        ClusterError: none answers there.
    """
    try:
        return Client(address, timeout=CONNECTING_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"schedprof: no scheduler answers at {address}: {error}") from None


def begin(anonymous: bool, dask_scheduler: Any = None) -> str:
    """Begin to record on the scheduler; return why not, or an empty text."""
    earlier = dask_scheduler.extensions.get(NAME)
    if earlier is not None and not earlier.is_over:
        return "its workload is being recorded already"
    WorkloadRecorder(dask_scheduler, Outbox(), anonymous=anonymous).begin()
    return ""


def take(is_last: bool, dask_scheduler: Any = None) -> tuple[bytes, bool]:
    """Return what was recorded since the last call, and whether the recording goes on."""
    recorder = dask_scheduler.extensions.get(NAME)
    if recorder is None or not isinstance(recorder.writer, Outbox):
        return b"", False
    if is_last:
        recorder.end()
    return recorder.writer.take(), not recorder.is_over


@contextmanager
def record_workload(client: Client, path: str | Path, *, anonymous: bool = False) -> Iterator[Path]:
    """Record what a scheduler is asked while the block runs, into a new file.

    Args:
        client: connected to the scheduler, which must have pytest-schedprof installed.
        path: the file.
        anonymous: name prefixes and resources by letters, and do not tell when it was recorded.

    Raises:
        SettingsError: the file exists or cannot be written.
        ClusterError: the scheduler cannot record.
    """
    path = Path(path)
    try:
        file = RecordingFile(path)
    except OSError as error:
        raise SettingsError(
            f"schedprof: the workload cannot be written to {path}: {error.strerror}"
        ) from None
    with closing(file):
        try:
            _begin(client, anonymous)
        except BaseException:
            path.unlink()  # else it would be in the way of the next attempt
            raise
        with Fetching(client, file):
            yield path


def _begin(client: Client, anonymous: bool) -> None:
    try:
        problem = client.run_on_scheduler(begin, anonymous)
    except Exception as error:
        raise ClusterError(
            f"schedprof: the scheduler at {client.scheduler.address} cannot record its workload: "  # type: ignore[union-attr]
            f"{type(error).__name__}: {error}; pytest-schedprof must be installed there"
        ) from error
    if problem:
        raise ClusterError(f"schedprof: the scheduler cannot record its workload: {problem}")


class Fetching:
    """Fetches blocks of the recording in a thread while a block of code runs."""

    def __init__(self, client: Client, file: RecordingFile) -> None:
        self._client, self._file = client, file
        self._is_over = threading.Event()
        self._problem = ""
        """Why the recording ended early; else empty."""
        self._thread = threading.Thread(target=self._run, name="schedprof-record", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End the recording, and fetch the rest.

        Raises:
            ClusterError: something went wrong meanwhile, and the block itself raises nothing.
        """
        self._is_over.set()
        self._thread.join()
        self._fetch(is_last=True)
        if self._problem and kind is None:
            raise ClusterError(
                f"schedprof: the recording into {self._file.path} has ended early: "
                f"{self._problem}; the file is whole up to there"
            )

    def _run(self) -> None:
        while not self._is_over.wait(FLUSH_S):
            if not self._fetch(is_last=False):
                self._problem = self._problem or "the scheduler ended it, as its log says"
                return

    def _fetch(self, *, is_last: bool) -> bool:
        """Fetch and write blocks; return whether there are more to come."""
        try:
            content, goes_on = self._client.run_on_scheduler(take, is_last)
            if not self._problem:
                self._file.write(content)
        except Exception as error:
            self._problem = self._problem or f"{type(error).__name__}: {error}"
            return False
        return bool(goes_on)
