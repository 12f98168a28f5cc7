"""A segment of a window: what was recorded, and what the scheduler's counters tell of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_schedprof.backends.contract import RawProfile, Recording
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.model.result import Segment
from pytest_schedprof.remote.contract import Target


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """What was recorded between a start and a stop of the backends."""

    facts: Segment
    raw: dict[str, RawProfile]
    """Profiles of the scheduler, by the backend's name."""
    elsewhere: tuple[tuple[str, Target, RawProfile], ...] = ()
    """Profiles of other targets, each with its backend's name."""


def end_window(recording: Recording) -> None:
    """Tell a recording that goes on that its window has ended."""
    told: Callable[[], None] = getattr(recording, "end_window", lambda: None)
    told()


def end_here(recording: Recording) -> None:
    """End what a recording has in this process, also if the scheduler is lost; few have any."""
    ended: Callable[[], None] = getattr(recording, "end_here", lambda: None)
    ended()


def salvaged(recording: Recording) -> RawProfile | None:
    """Return what survived the scheduler; recordings of third parties need not support this."""
    salvage: Callable[[], RawProfile | None] = getattr(recording, "salvage", lambda: None)
    return salvage()


def segment_between(before: dict[str, Any], after: dict[str, Any]) -> Segment:
    """Return the facts of a segment from the scheduler's counters at its start and at its end."""
    if any(after[name] < before[name] for name in ("tasks", "transitions")):
        raise RecordingError(
            "schedprof: the scheduler's counters ran backwards, so costs per task are unknown; "
            "do not reset them during the test"
        )
    return Segment(
        seconds=after["time"] - before["time"],
        cpu_seconds=after["cpu"] - before["cpu"],
        tasks=after["tasks"] - before["tasks"],
        transitions=after["transitions"] - before["transitions"],
        others_tasks=after.get("others_tasks", 0),
        hash=after.get("hash", ""),
    )
