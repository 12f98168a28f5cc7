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
