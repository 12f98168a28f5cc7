"""The kind `transfers`: what workers sent each other, by their own logs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pytest_schedprof.agent import reports, transfers
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
)
from pytest_schedprof.evidence.pictures import as_json
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
        self._begun_at = self._control.call(reports.clock)["time"]

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the logs of each worker as JSON."""
        told = self._control.call_workers(transfers.tell_transfers, self._begun_at)
        logs = [
            msgspec.convert({"address": address, **each}, WorkerTransfers)
            for address, each in told.items()
            if each is not None
        ]
        if not logs:
            raise EvidenceUnavailableError("hollow workers keep no log of transfers")
        return Brought({"transfers.json": as_json(logs)})
