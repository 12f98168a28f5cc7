"""The cluster `virtual`: scheduler and hollow workers in one process, on one virtual clock."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.options import EVENT_LOOP, config_of
from pytest_schedprof.clusters.own import PROVEN, SCHEDULER, OwnCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.virtual.conductor import Conductor
from pytest_schedprof.virtual.loop import Turns
from pytest_schedprof.virtual.patches import conduct, dismiss, move_on

ROUND_AT_S = 2.5
"""Seconds after a full time at which rounds begin: then no client has a heartbeat."""


class VirtualCluster(OwnCluster):
    """One process, which has its turn whenever the test waits."""

    kind = "virtual"

    @classmethod
    def start(cls, spec: ClusterSpec, *, timeout_s: float) -> OwnCluster:
        """Start the process, whose event loop cannot be chosen.

        The trial of another interpreter has a cluster of its own, because it would change what is
        decided later.
        """
        if EVENT_LOOP in config_of(dict(spec.options)):
            raise SettingsError(
                f"schedprof: {EVENT_LOOP} has no effect on cluster 'virtual', whose event loop is "
                "one of virtual time"
            )
        if spec.interpreter and spec.interpreter not in PROVEN:
            super().start(replace(spec, workers=1), timeout_s=timeout_s).close()
        return super().start(spec, timeout_s=timeout_s)

    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        return [
            {
                "role": "virtual",
                "count": workers,
                "threads": threads,
                "options": dict(options),
                "scheduler_options": self._scheduler_order()["options"],
            }
        ]

    def _start(self, orders: Sequence[dict[str, Any]], patience_s: float) -> None:
        (order,) = orders
        seed = int(order["options"].get("seed", 0))
        child = self._child(SCHEDULER, seed)
        self._children = [child]
        deadline = time.monotonic() + patience_s
        child.tell(order)
        address, host, port = child.answer(deadline)
        self.address, self.pid = address, child.process.pid
        connection = socket.create_connection((host, port), max(1.0, deadline - time.monotonic()))
        connection.settimeout(None)
        self._conductor = Conductor(Turns(connection), seed, child.give_up)
        conduct(self.address, self._conductor)
        self._rounds = 0

    def watch(self, patience_s: float) -> None:
        """End the process too if it keeps the turn for so long after an interrupt of the test."""
        super().watch(patience_s)
        self._conductor.patience_s = patience_s

    def is_whole(self) -> bool:
        return False  # a new one is the same in each run, whatever ran before

    def begin_test(self) -> None:
        """Let the client connect at a full time, so that its heartbeats are at the same times."""
        move_on(self.address)

    def begin_round(self) -> None:
        """Begin as this round does in any other session, and on any other side."""
        self._rounds += 1
        move_on(self.address, ROUND_AT_S)
        self._conductor.renew_names(self._rounds)

    def open_line(self, timeout_s: float) -> Control:
        """Connect without asking first who listens: only governed clients get an answer."""
        return Control(self.address, security=self.security, timeout_s=timeout_s)

    def close(self) -> None:
        """End the process, and govern its clients no longer."""
        super().close()
        dismiss(getattr(self, "address", ""))
