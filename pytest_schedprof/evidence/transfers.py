"""What workers sent each other, by their own logs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pytest_schedprof.agent import transfers
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError
from pytest_schedprof.evidence.kept import KeptKind
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.model.evidence import WorkerTransfers
from pytest_schedprof.model.result import BackendResult


class TransfersKind(KeptKind):
    """Workers keep these logs in any case."""

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, worker by worker."""
        told = self._control.call_workers(transfers.tell_transfers, self._begun["time"])
        logs = [
            msgspec.convert({"address": address, **each}, WorkerTransfers)
            for address, each in told.items()
            if each is not None
        ]
        if not logs:
            raise EvidenceUnavailableError("hollow workers keep no log of transfers")
        return Brought({"transfers.json": as_json(logs)})
