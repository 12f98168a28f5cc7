"""The kind `transfers`: what workers sent each other, by their own logs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from pytest_schedprof.agent import instruments
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
    RunFigures,
)
from pytest_schedprof.formats.charts import as_file, box, element, words
from pytest_schedprof.model.evidence import WorkerTransfers
from pytest_schedprof.model.result import BackendResult

CELL, LEFT, TOP, LETTERS = 64, 150, 60, 18
"""Pixels: of a cell, of the names of receivers and of senders; and letters of a name at most."""

MOST = 40
"""Workers that are drawn at most: those that moved most bytes."""


class Moved(NamedTuple):
    """What one worker received of another."""

    bytes: int
    seconds: float
    transfers: int

    @property
    def bandwidth(self) -> float:
        """Bytes per second while a transfer was under way."""
        return self.bytes / self.seconds if self.seconds else 0.0


Pairs = Mapping[tuple[str, str], Moved]
"""By the names of sender and receiver."""


def draw_pairs(pairs: Pairs) -> bytes:
    """Draw a row for each receiver and a column for each sender, darker where it was faster."""
    moved_by: Counter[str] = Counter()
    for pair, moved in pairs.items():
        for name in pair:
            moved_by[name] += moved.bytes
    names = sorted(sorted(moved_by, key=lambda name: (-moved_by[name], name))[:MOST])
    fastest = max((moved.bandwidth for moved in pairs.values()), default=0.0)
    places = {name: CELL * number for number, name in enumerate(names)}
    parts = [words(6, 16, "MB/s; columns send, rows receive")]
    for name, place in places.items():
        parts.append(words(LEFT + place + 4, TOP - 8, _cut(name, CELL // 8)))
        parts.append(words(6, TOP + place + CELL / 2, _cut(name, LETTERS)))
    for (sender, receiver), moved in sorted(pairs.items()):
        if sender in places and receiver in places:
            x, y, speed = LEFT + places[sender], TOP + places[receiver], moved.bandwidth / 1e6
            cell = box(x, y, CELL - 1, CELL - 1, fill=_colour(moved.bandwidth, fastest))
            size = f"{moved.bytes} bytes in {moved.transfers} transfers"
            title = f"{sender} to {receiver}: {speed:.3g} MB/s, {size}"
            parts.append(
                element("g", cell, words(x + 6, y + CELL / 2, f"{speed:.3g}"), title=title)
            )
    return as_file(LEFT + CELL * len(names), TOP + CELL * len(names), parts)


def _colour(bandwidth: float, fastest: float) -> str:
    """Return a blue: the fastest pair's is dark enough to see, and black text stays legible."""
    part = math.log1p(bandwidth) / math.log1p(fastest) if fastest else 0.0
    light = round(245 - 110 * part**4)
    return f"#{light:02x}{light + 8:02x}ff"


def _cut(name: str, letters: int) -> str:
    """Return the end of a name, where addresses differ."""
    return name if len(name) <= letters else f"..{name[2 - letters :]}"


LOST = (
    "what arrived in each run is not known: a worker received more than its log holds, "
    "distributed.admin.low-level-log-length"
)


class TransfersKind(Kind, name="transfers", description="what workers sent each other"):
    """Reads logs that workers keep anyway, from the start of the test on."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        self._begun_at = float(self._control.call(instruments.clock)["time"])
        self._sizes: dict[int, list[int]] = {}
        """Bytes of each transfer, by the run of the body."""
        self._are_all = True
        """Whether no log has lost any of them."""

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        marks = self._control.call_workers(instruments.last_incoming)
        known = {address: mark for address, mark in marks.items() if mark is not None}
        yield
        if known or not marks:  # hollow workers have no log; others may have come meanwhile
            sizes = self._control.call_workers(instruments.tell_sizes, known).values()
            self._sizes[number] = [size for arrived in sizes for size in arrived or ()]
            self._are_all &= None not in sizes

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        answers = self._control.call_workers(instruments.tell_transfers, self._begun_at)
        logs = [{"address": address, **log} for address, log in answers.items() if log is not None]
        if not logs:
            raise EvidenceUnavailableError("hollow workers keep no log of transfers")
        return brought_transfers(logs, self._sizes, self._are_all)


def brought_transfers(
    answers: Sequence[Mapping[str, Any]], sizes: Mapping[int, Sequence[int]], are_all: bool
) -> Brought:
    """Return logs as JSON, and how much arrived in each run, if these are all transfers."""
    logs = [msgspec.convert(answer, WorkerTransfers) for answer in answers]
    figures = [
        RunFigures("transfers_bytes", "", {run: sum(arrived) for run, arrived in sizes.items()}),
        RunFigures("transfers_count", "", {run: len(arrived) for run, arrived in sizes.items()}),
    ]
    files = {"transfers.json": msgspec.json.encode(logs)}
    if pairs := _pairs(logs):
        files["transfers.svg"] = draw_pairs(pairs)
    return Brought(files, figures=figures) if are_all else Brought(files, (LOST,))


def _pairs(logs: Sequence[WorkerTransfers]) -> dict[tuple[str, str], Moved]:
    """Return what each worker received of each other one, by their names."""
    names = {log.address: log.name for log in logs}
    pairs: dict[tuple[str, str], Moved] = {}
    for log in logs:
        for transfer in log.incoming:
            pair = names.get(transfer.peer, transfer.peer), log.name
            before = pairs.get(pair, Moved(0, 0.0, 0))
            pairs[pair] = Moved(
                before.bytes + transfer.bytes,
                before.seconds + transfer.duration,
                before.transfers + 1,
            )
    return pairs
