"""A cluster of our own: a scheduler and its workers in processes that end with the session."""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dask.config
from distributed.security import Security

from pytest_schedprof.clusters.child import Child
from pytest_schedprof.clusters.options import NOTHING, config_of, is_encrypted
from pytest_schedprof.clusters.understanding import require_understanding
from pytest_schedprof.errors import ClusterError

HOST = "127.0.0.1"


class OwnCluster(ABC):
    """Processes on the loopback interface; the scheduler's loop is in its main thread."""

    kind: str
    is_ours = True

    def __init__(
        self,
        workers: int,
        *,
        timeout_s: float,
        threads: int = 1,
        options: Mapping[str, str] = NOTHING,
        interpreter: str = "",
    ) -> None:
        self.interpreter = interpreter
        self.security = _temporary_security() if is_encrypted(options) else None
        self._children: list[Child] = []
        self._directory = Path(tempfile.mkdtemp(prefix="schedprof-cluster-"))
        try:
            with dask.config.set(config_of(options)):  # which children inherit
                self._start(self._orders(workers, threads, options), time.monotonic() + timeout_s)
            if interpreter:
                require_understanding(self.address, self.security, interpreter, timeout_s)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        """What each process of workers is to run, but for where the scheduler is."""

    def _start(self, orders: Sequence[dict[str, Any]], deadline: float) -> None:
        """All at once, for what takes long is that each of them imports distributed."""
        names = ["scheduler", *(f"workers-{n}" if n else "workers" for n in range(len(orders)))]
        made = [Child(each, self._directory / f"{each}.log", self.interpreter) for each in names]
        scheduler, *workers = made
        self._children = [*workers, scheduler]
        hollow = sum(order["count"] for order in orders if order["role"] == "hollow-workers")
        scheduler.tell(
            {**self._scheduler_order(), "security": self._secrets(), "hollow_workers": hollow}
        )
        (self.address,) = scheduler.answer(deadline)
        self.pid = scheduler.process.pid
        for child, order in zip(workers, orders, strict=True):
            child.tell({**order, "scheduler": self.address, "security": self._secrets()})
        for child in workers:
            child.answer(deadline)

    def _scheduler_order(self) -> dict[str, Any]:
        protocol = "tls" if self.security else "tcp"
        options = {
            "host": HOST,
            "port": 0,
            "protocol": protocol,
            "dashboard": False,
            # The scheduler serves HTTP all the same, at a port of its own choice or a usual one.
            "dashboard_address": f"{HOST}:0",
            "local_directory": str(self._directory),
        }
        return {"role": "scheduler", "options": options}

    def _secrets(self) -> dict[str, Any]:
        """What both sides need to trust each other; it travels by pipe, never by file."""
        if self.security is None:
            return {}
        values = {name: getattr(self.security, name, None) for name in Security.__slots__}
        return {name: value for name, value in values.items() if value}

    def death(self, patience_s: float = 0) -> str | None:
        """How the scheduler ended, with its last words."""
        scheduler = self._children[-1]
        death = scheduler.death(patience_s)
        return f"{death}; its log ends: {scheduler.last_words()}" if death else None

    def is_whole(self) -> bool:
        """Whether all processes run."""
        return not any(child.death() for child in self._children)

    def close(self) -> None:
        """End all processes and remove their files."""
        for child in self._children:
            child.hang_up()
        for child in self._children:
            child.reap()
        shutil.rmtree(self._directory, ignore_errors=True)


def _temporary_security() -> Security:
    try:
        security: Security = Security.temporary()
    except ImportError as error:
        raise ClusterError(
            "schedprof: cluster option tls makes certificates with the package cryptography, "
            "which is not installed here: pip install cryptography"
        ) from error
    return security
