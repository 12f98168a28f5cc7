"""Records a scheduler's workload from a client, into a file on the client's side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from distributed import Client

from pytest_schedprof.errors import ClusterError, SettingsError
from pytest_schedprof.formats.workload import MAGIC
from pytest_schedprof.record.recorder import FLUSH_S, NAME, WorkloadRecorder
from pytest_schedprof.record.writer import Outbox

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


def begin(hashed: bool, dask_scheduler: Any = None) -> str:
    """Begin to record on the scheduler; return why not, or an empty text."""
    earlier = dask_scheduler.extensions.get(NAME)
    if earlier is not None and not earlier.is_over:
        return "its workload is being recorded already"
    WorkloadRecorder(dask_scheduler, Outbox(), hashed=hashed).begin()
    return ""


def take(is_last: bool, dask_scheduler: Any = None) -> tuple[bytes, bool]:
    """Return what was recorded since the last time, and whether the recording goes on."""
    recorder = dask_scheduler.extensions.get(NAME)
    if recorder is None or not isinstance(recorder.writer, Outbox):
        return b"", False
    if is_last:
        recorder.end()
    return recorder.writer.take(), not recorder.is_over


@contextmanager
def record_workload(client: Client, path: str | Path, *, hashed: bool = False) -> Iterator[Path]:
    """Record what a scheduler is asked while the block runs, into a new file.

    Args:
        client: connected to the scheduler, which must have pytest-schedprof installed.
        path: the file.
        hashed: replace prefixes of tasks by letters.

    Raises:
        SettingsError: the file exists or cannot be written.
        ClusterError: the scheduler cannot record.
    """
    path = Path(path)
    try:
        file = path.open("xb", buffering=0)
    except OSError as error:
        raise SettingsError(
            f"schedprof: the workload cannot be written to {path}: {error.strerror}"
        ) from None
    with file:
        file.write(MAGIC)
        _begin(client, hashed)
        with _fetching(client, file):
            yield path


def _begin(client: Client, hashed: bool) -> None:
    try:
        problem = client.run_on_scheduler(begin, hashed)
    except Exception as error:
        raise ClusterError(
            f"schedprof: the scheduler at {client.scheduler.address} cannot record its workload: "  # type: ignore[union-attr]
            f"{type(error).__name__}: {error}; pytest-schedprof must be installed there"
        ) from error
    if problem:
        raise ClusterError(f"schedprof: the scheduler cannot record its workload: {problem}")


@contextmanager
def _fetching(client: Client, file: BinaryIO) -> Iterator[None]:
    """Fetch blocks in a thread of its own until the block ends."""
    is_over = threading.Event()

    def fetch() -> None:
        while not is_over.wait(FLUSH_S):
            content, goes_on = client.run_on_scheduler(take, False)
            file.write(content)
            if not goes_on:
                return

    thread = threading.Thread(target=fetch, name="schedprof-record", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        content, _ = client.run_on_scheduler(take, True)
        file.write(content)
