"""JSON files of our own that more rooms than one backend read: counts and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import read_json

KINDS = ("compute", "steal", "stolen")
"""A worker was chosen for the task; it was asked to give the task back; it got a task that another
one gave back."""

STEAL = KINDS.index("steal")

RULES = ("queue", "siblings", "data", "free", "theft")
"""How the scheduler chose: of a root-ish task the idle worker with the fewest tasks per thread; of
one that is not queued the worker that has its siblings; of the workers that hold its dependencies
the one where it begins first; of a task without any an idle worker; the thief."""

NOBODY = -1
"""Number in the place of a worker if there is none."""


class DecisionColumns(Struct, frozen=True):
    """The decisions in their order, by column. Tasks and workers are numbers in lists of names."""

    at: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    """Number in `KINDS`."""
    key: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    occupancy: list[int] = field(default_factory=list)
    """Microseconds of work that the scheduler expected there, without this task."""
    processing: list[int] = field(default_factory=list)
    """Tasks that the worker had, without this one."""
    fetch: list[int] = field(default_factory=list)
    """Bytes of dependencies that it did not hold."""
    rule: list[int] = field(default_factory=list)
    """Number in `RULES`."""
    others: list[int] = field(default_factory=list)
    """Number of other workers that the scheduler had to choose from."""
    other: list[int] = field(default_factory=list)
    """The best of them, or the thief. `NOBODY` if there was none, or too many to look at."""
    other_occupancy: list[int] = field(default_factory=list)
    other_processing: list[int] = field(default_factory=list)
    other_fetch: list[int] = field(default_factory=list)


class TaskColumns(Struct, frozen=True):
    """The tasks that finished, in the order of the reports, by column."""

    key: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    took: list[int] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)


class TransferColumns(Struct, frozen=True):
    """What workers fetched for tasks."""

    worker: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    took: list[int] = field(default_factory=list)


class HeldColumns(Struct, frozen=True):
    """What workers held in results: the peaks in stretches of time that begin at `at`."""

    at: list[int] = field(default_factory=list)
    all: list[int] = field(default_factory=list)
    worst: list[int] = field(default_factory=list)


class Step(NamedTuple):
    """What identifies a decision."""

    at: int
    kind: str
    key: str
    worker: str
    thief: str = ""
    """Who a task is stolen for; empty of other decisions."""


class Decided(Struct, frozen=True):
    """The content of `decisions.json`: one window."""

    hash: str
    """Hash of the log of all messages; equal if everything happened in the same way."""
    figures: dict[str, float]
    keys: list[str] = field(default_factory=list)
    workers: list[str] = field(default_factory=list)
    choices: DecisionColumns = field(default_factory=DecisionColumns)
    tasks: TaskColumns = field(default_factory=TaskColumns)
    transfers: TransferColumns = field(default_factory=TransferColumns)
    held: HeldColumns = field(default_factory=HeldColumns)

    def steps(self) -> list[Step]:
        """Return what identifies each decision, in their order."""
        columns = self.choices
        rows = zip(
            columns.at, columns.kind, columns.key, columns.worker, columns.other, strict=True
        )
        keys, names, thieves = self.keys, self.workers, [*self.workers, ""]
        return [
            Step(
                moment,
                KINDS[kind],
                keys[key],
                names[worker],
                thieves[other if kind == STEAL else -1],
            )
            for moment, kind, key, worker, other in rows
        ]

    def runs(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield key, worker, start and end of each task that finished."""
        tasks = self.tasks
        rows = zip(tasks.key, tasks.worker, tasks.start, tasks.took, strict=True)
        for key, worker, start, took in rows:
            yield self.keys[key], self.workers[worker], start, start + took

    def places(self) -> dict[str, str]:
        """Return the worker on which each task finished, the last time if there were several."""
        pairs = zip(self.tasks.key, self.tasks.worker, strict=True)
        return {self.keys[key]: self.workers[worker] for key, worker in pairs}


class CountsFile(msgspec.Struct, frozen=True):
    """Counts over one recording."""

    schedprof_counts: int
    """Version of the format."""
    python: str
    """Python's version; bytecodes of two minor versions are never compared."""
    functions: dict[str, dict[str, int]]
    whole: dict[str, int]
    code: dict[str, str] = {}
    """Digests of each function's code, with spaces between them; empty in older files."""
    callers: dict[str, dict[str, int]] = {}
    """Calls of each function by the function that called it; empty if they were not counted."""
    lines: dict[str, dict[int, int]] = {}
    """Instructions of each function by the line of its file; empty if they were not counted."""


def read_counts(content: bytes) -> CountsFile:
    """Parse a file of counts.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    return read_json(content, CountsFile, "counts")


def with_more(
    content: bytes, more: Mapping[str, Mapping[str, int]], code: Mapping[str, str]
) -> bytes:
    """Return a file of counts with further counts of functions, of metrics that it does not have.

    And with the digests of functions that it does not have.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    file = read_counts(content)
    functions = {name: dict(counts) for name, counts in file.functions.items()}
    for name, counts in more.items():
        functions.setdefault(name, {}).update(counts)
    ordered = dict(sorted(functions.items()))
    changed = msgspec.structs.replace(file, functions=ordered, code={**code, **file.code})
    return msgspec.json.encode(changed)


def read_decisions(content: bytes) -> Decided:
    """Parse a file of decisions.

    Raises:
        FormatError: if it is none, or damaged.
    """
    decided = read_json(content, Decided, "decisions")
    if not _is_whole(decided):
        raise FormatError(
            "schedprof: not a file of decisions: columns do not fit together "
            f"({len(content)} bytes)"
        )
    return decided


def _is_whole(decided: Decided) -> bool:
    """Whether the columns of a table have one length, and every number in them has its name."""
    choices, tasks, transfers = decided.choices, decided.tasks, decided.transfers
    for table in (choices, tasks, transfers, decided.held):
        if len({len(getattr(table, column)) for column in table.__struct_fields__}) > 1:
            return False
    names = {"kind": KINDS, "rule": RULES, "key": decided.keys, "worker": decided.workers}
    columns = [
        *((getattr(choices, name), 0, names[name]) for name in names),
        (choices.other, NOBODY, decided.workers),
        (tasks.key, 0, decided.keys),
        *((table.worker, 0, decided.workers) for table in (tasks, transfers)),
    ]
    return all(
        least <= min(column, default=0) and max(column, default=NOBODY) < len(known)
        for column, least, known in columns
    )
