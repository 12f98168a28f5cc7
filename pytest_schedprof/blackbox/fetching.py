"""Asks a scheduler for its black box."""

from __future__ import annotations

from pathlib import Path

from distributed import Client

from pytest_schedprof.blackbox.asking import take
from pytest_schedprof.blackbox.writing import write_ring
from pytest_schedprof.errors import ClusterError
from pytest_schedprof.record.fetching import connect


def dump(address: str, directory: Path) -> Path:
    """Fetch a scheduler's black box, and write it as a run; return the run's directory.

    Raises:
        ClusterError: the scheduler does not answer, or has none.
        ArtifactError: it cannot be written.
    """
    with connect(address) as client:
        content = _fetch(client, address)
    if not content:
        raise ClusterError(
            f"schedprof: the scheduler at {address} has no black box: start it with "
            "--preload pytest_schedprof.blackbox"
        )
    return write_ring(content, directory)


def _fetch(client: Client, address: str) -> bytes:
    try:
        content: bytes = client.run_on_scheduler(take)
    except Exception as error:
        raise ClusterError(
            f"schedprof: the scheduler at {address} cannot be asked for its black box: "
            f"{type(error).__name__}: {error}; pytest-schedprof must be installed there"
        ) from error
    return content
