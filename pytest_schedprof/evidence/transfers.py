"""The kind `transfers`: what workers sent each other, by their own logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from pytest_schedprof.agent import reports, transfers
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
    RunFigures,
)
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.formats.pairs import Moved, draw_pairs
from pytest_schedprof.model.evidence import WorkerTransfers
from pytest_schedprof.model.result import BackendResult


class TransfersKind(
    Kind,
    name="transfers",
    description="what workers sent each other",
):
    """Reads logs that workers keep anyway, from the begin of the test on."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        self._begun_at = float(self._control.call(reports.clock)["time"])
        self._sizes: dict[int, list[int]] = {}
        """Bytes of each transfer, by the run of the body."""

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Read what arrives during the run."""
        counts = self._control.call_workers(transfers.count_incoming)
        known = {address: count for address, count in counts.items() if count is not None}
        yield
        if known:  # hollow workers have no log
            told = self._control.call_workers(transfers.tell_sizes, known)
            self._sizes[number] = [size for each in told.values() for size in each]

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the logs of each worker as JSON."""
        told = self._control.call_workers(transfers.tell_transfers, self._begun_at)
        logs = [{"address": address, **each} for address, each in told.items() if each is not None]
        if not logs:
            raise EvidenceUnavailableError("hollow workers keep no log of transfers")
        return brought_transfers(logs, self._sizes)


def brought_transfers(
    told: Sequence[Mapping[str, Any]], sizes: Mapping[int, Sequence[int]]
) -> Brought:
    """Return logs as JSON, and how much arrived in each run."""
    logs = [msgspec.convert(each, WorkerTransfers) for each in told]
    figures = [
        RunFigures("transfers_bytes", "", {run: sum(each) for run, each in sizes.items()}),
        RunFigures("transfers_count", "", {run: len(each) for run, each in sizes.items()}),
    ]
    files = {"transfers.json": as_json(logs)}
    if pairs := _pairs(logs):
        files["transfers.svg"] = draw_pairs(pairs)
    return Brought(files, figures=figures)


def _pairs(logs: Sequence[WorkerTransfers]) -> dict[tuple[str, str], Moved]:
    """Return what each worker received of each other one, by their names."""
    names = {log.address: log.name for log in logs}
    found: dict[tuple[str, str], Moved] = {}
    for log in logs:
        for each in log.incoming:
            pair = names.get(each.peer, each.peer), log.name
            before = found.get(pair, Moved(0, 0.0, 0))
            found[pair] = Moved(
                before.bytes + each.bytes, before.seconds + each.duration, before.transfers + 1
            )
    return found
