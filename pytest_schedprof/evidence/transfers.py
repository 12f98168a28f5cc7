"""What workers sent each other, by their own logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from pytest_schedprof.agent import reports, transfers
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.model.evidence import WorkerTransfers
from pytest_schedprof.model.result import BackendResult


class TransfersKind:
    """Workers keep these logs in any case."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        self._control = scheduler.control
        self._since = self._control.call(reports.clock)["time"]

    @contextmanager
    def run(self, number: int) -> Iterator[None]:
        """Nothing needs to be done."""
        yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, worker by worker."""
        told = self._control.call_workers(transfers.tell_transfers, self._since)
        logs = [
            msgspec.convert({"address": address, **each}, WorkerTransfers)
            for address, each in told.items()
            if each is not None
        ]
        if not logs:
            raise EvidenceUnavailableError("hollow workers keep no log of transfers")
        return Brought({"transfers.json": as_json(logs)})
