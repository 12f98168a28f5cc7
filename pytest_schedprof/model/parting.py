"""Where two runs of a test part: the first decision of the scheduler that differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Difference(StrEnum):
    """What differs first."""

    NOTHING = "nothing"
    """Everything happened in the same way and at the same times."""
    WORKER = "worker"
    """Another worker was chosen for the same task."""
    TIME = "time"
    """The same was decided at another time."""
    TASK = "task"
    """Another task was decided about, or another thing about the same task."""
    END = "end"
    """One side decided nothing more."""
    MESSAGES = "messages"
    """Every decision is the same; other messages differ, or their times."""
    GRAPH = "graph"
    """The test sent other tasks: nothing follows about the scheduler."""
    UNKNOWN = "unknown"
    """The hashes differ; what was recorded of one side is not at hand."""


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker as the scheduler saw it, with regard to a task."""

    name: str
    occupancy_s: float
    """Seconds of work that the scheduler expected there."""
    processing: int
    """Tasks that it had."""
    fetch: int
    """Bytes of the task's dependencies that it did not hold."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision, and what the scheduler compared for it."""

    at_s: float
    """Virtual time since the window began."""
    kind: str
    """`compute`, `steal` or `stolen`."""
    key: str
    worker: SeenWorker
    rule: str = ""
    """How the scheduler chose the worker: one of `RULES`."""
    others: int = 0
    """Number of other workers that it had to choose from."""
    best_other: SeenWorker | None = None
    """The best of them, of a theft the thief; None if there was none, or too many to look at."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The decisions of two runs of a test, compared."""

    what: Difference
    hashes: tuple[str, str]
    """Of the first round that differs; of the first one if none does."""
    round: int = 1
    rounds: int = 1
    """Rounds that both sides have."""
    alike: int = 0
    """Decisions of the round that are the same before the first difference."""
    before: Choice | None = None
    after: Choice | None = None
    later: Choice | None = None
    """What the later side decided about the earlier side's task, if not at the same place."""
    tasks: int = 0
    """Tasks that finished on both sides."""
    moved: int = 0
    """How many of them finished on another worker."""
    only_before: int = 0
    """Tasks that only the earlier side decided about."""
    only_after: int = 0
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Figures of the round that differ, before and after."""
