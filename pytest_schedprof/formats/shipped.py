"""The recorded workloads that the package ships, by name."""

from __future__ import annotations

from pathlib import Path

SHIPPED = ("recorded_shuffle", "recorded_rechunk", "recorded_sweep")

_FILES = Path(__file__).parents[1] / "workloads" / "files"


def place_of(name: str) -> Path:
    """Return the file of a recorded workload: one that is shipped, or the one at this path."""
    return _FILES / f"{name}.schedprof" if name in SHIPPED else Path(name)
