"""Reads what a worker sent and received from its own logs."""

from __future__ import annotations

from typing import Any

SIDES = ("incoming", "outgoing")


def tell_transfers(since: float, dask_worker: Any = None) -> dict[str, Any] | None:
    """Return transfers since then, by the scheduler's clock; None if the worker has no logs."""
    if not hasattr(dask_worker, "transfer_incoming_log"):
        return None
    return {
        "name": str(dask_worker.name),
        **{
            side: [
                _plain(each)
                for each in getattr(dask_worker, f"transfer_{side}_log")
                if each["start"] >= since
            ]
            for side in SIDES
        },
    }


def count_incoming(dask_worker: Any = None) -> int | None:
    """Return how many transfers the log of a worker has; None if it has no log."""
    log = getattr(dask_worker, "transfer_incoming_log", None)
    return None if log is None else len(log)


def tell_sizes(counts: dict[str, int], dask_worker: Any = None) -> list[int]:
    """Return the bytes of each transfer that arrived since the logs had so many, by address.

    Times would not tell: a worker only guesses how far its clock is from the scheduler's, and is
    wrong by more than a short test takes where the machine is busy.
    """
    log = list(getattr(dask_worker, "transfer_incoming_log", ()))
    return [each["total"] for each in log[counts.get(dask_worker.address, 0) :]]


def _plain(transfer: dict[str, Any]) -> dict[str, Any]:
    """Return a transfer as plain data; the worker already converts times to the scheduler's."""
    return {
        "start": transfer["start"],
        "stop": transfer["stop"],
        "duration": transfer["duration"],
        "peer": str(transfer["who"]),
        "keys": {str(key): nbytes for key, nbytes in transfer["keys"].items()},
        "bytes": transfer["total"],
        "compressed_bytes": transfer.get("compressed"),
        "bandwidth": transfer["bandwidth"],
    }
