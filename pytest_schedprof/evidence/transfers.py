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
from pytest_schedprof.model.evidence import Transfer, WorkerTransfers
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
        self._begun_at = self._now()
        self._runs: dict[int, tuple[float, float]] = {}
        """Begin and end of each run of the body."""

    def _now(self) -> float:
        return float(self._control.call(reports.clock)["time"])

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Note when the run begins and ends."""
        begun = self._now()
        yield
        self._runs[number] = begun, self._now()

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the logs of each worker as JSON."""
        told = self._control.call_workers(transfers.tell_transfers, self._begun_at)
        logs = [{"address": address, **each} for address, each in told.items() if each is not None]
        if not logs:
            raise EvidenceUnavailableError("hollow workers keep no log of transfers")
        return brought_transfers(logs, self._runs)


def brought_transfers(
    told: Sequence[Mapping[str, Any]], runs: Mapping[int, tuple[float, float]]
) -> Brought:
    """Return logs as JSON, and how much was sent in each run."""
    logs = [msgspec.convert(each, WorkerTransfers) for each in told]
    incoming = [each for log in logs for each in log.incoming]
    return Brought({"transfers.json": as_json(logs)}, figures=_figures(incoming, runs))


def _figures(
    incoming: Sequence[Transfer], runs: Mapping[int, tuple[float, float]]
) -> list[RunFigures]:
    """Return bytes and number of the transfers that began in each run.

    Those that arrived are counted: the logs of both workers have each transfer.
    """
    sizes = {
        number: [float(each.bytes) for each in incoming if begun <= each.start < ended]
        for number, (begun, ended) in runs.items()
    }
    return [
        RunFigures("transfers_bytes", "", {run: sum(each) for run, each in sizes.items()}),
        RunFigures("transfers_count", "", {run: len(each) for run, each in sizes.items()}),
    ]
