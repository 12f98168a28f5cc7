"""Base of clusters that are started here, in processes that end with the session."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dask.config
from distributed.security import Security

from pytest_schedprof.clusters.child import Child, Watch
from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.clusters.options import config_of, is_encrypted, with_settings, worker_options
from pytest_schedprof.control.reachability import require_compatible
from pytest_schedprof.errors import ClusterError

HOST = "127.0.0.1"

SCHEDULER = "scheduler"
"""Name of the scheduler's process, in messages and of its log."""

SLOWER = 10
"""How many times longer a process may take that a launcher starts: emulated, it is that slow."""

PROVEN: set[str] = set()
"""Interpreters whose schedulers the client here can use: one trial of each is enough."""


class OwnCluster(Cluster):
    """Processes on the loopback interface; the scheduler's event loop runs in the main thread."""

    is_ours = True

    def __init__(
        self,
        workers: int,
        *,
        timeout_s: float,
        threads: int = 1,
        options: Mapping[str, str] = MappingProxyType({}),
        interpreter: str = "",
        launcher: Sequence[str] = (),
    ) -> None:
        """Start the processes, and wait until they are ready."""
        self.interpreter = interpreter
        self.launcher = launcher
        self.security = _temporary_security() if is_encrypted(options) else None
        self._children: list[Child] = []
        self._watch: Watch | None = None
        self._directory = Path(tempfile.gettempdir(), f"schedprof-cluster-{secrets.token_hex(8)}")
        # An interrupt may come at any time, also in `close`: the end of this process remains.
        self._removal = weakref.finalize(self, _remove, self._directory, os.getpid())
        try:
            with dask.config.set(config_of(options)):  # children inherit it
                self._start(self._orders(workers, threads, options), self._patience(timeout_s))
            if interpreter and interpreter not in PROVEN:
                require_compatible(self.address, self.security, interpreter, timeout_s)
                PROVEN.add(interpreter)
        except BaseException as error:
            self.close()
            if type(error) is ClusterError:
                raise ClusterError(with_settings(str(error), options)) from None
            raise

    def _patience(self, timeout_s: float) -> float:
        return timeout_s * (SLOWER if self.launcher else 1)

    @classmethod
    def start(cls, spec: ClusterSpec, *, timeout_s: float) -> OwnCluster:
        return cls(
            spec.workers,
            timeout_s=timeout_s,
            threads=spec.threads,
            options=dict(spec.options),
            interpreter=spec.interpreter,
            launcher=spec.launcher,
        )

    @abstractmethod
    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        """Return what each process of workers has to run, without the scheduler's address."""

    def _start(self, orders: Sequence[dict[str, Any]], patience_s: float) -> None:
        """Start all processes at once, since each takes long to import distributed.

        They have their time from when they run: a fork server that stood still may have cost some.
        """
        names = [SCHEDULER, *(f"workers-{n}" if n else "workers" for n in range(len(orders)))]
        scheduler, *workers = map(self._child, names)
        self._children = [*workers, scheduler]
        deadline = time.monotonic() + patience_s
        hollow = sum(order["count"] for order in orders if order["role"] == "hollow-workers")
        scheduler.tell(
            {**self._scheduler_order(), "security": self._secrets(), "hollow_workers": hollow}
        )
        (self.address,) = scheduler.answer(deadline)
        self.pid = scheduler.process.pid
        for child, order in zip(workers, orders, strict=True):
            child.tell({**order, "scheduler": self.address, "security": self._secrets()})
        for child in workers:
            child.answer(deadline, scheduler)

    def _child(self, name: str, hash_seed: int | None = None) -> Child:
        """Start a process; the launcher is for the scheduler, which is the one that is measured."""
        launcher = self.launcher if name == SCHEDULER else ()
        log = self._directory / f"{name}.log"
        return Child(name, log, self.interpreter, hash_seed, launcher)

    def _scheduler_order(self) -> dict[str, Any]:
        options = {
            "host": HOST,
            "port": 0,
            "protocol": "tls" if self.security else "tcp",
            "dashboard": False,
            # The scheduler serves HTTP in any case; port 0 keeps it off the default port.
            "dashboard_address": f"{HOST}:0",
            "local_directory": str(self._directory),
        }
        return {"role": "scheduler", "options": options}

    def _secrets(self) -> dict[str, Any]:
        """Return the keys and certificates for both sides; they are sent by pipe, never by file."""
        if self.security is None:
            return {}
        values = {name: getattr(self.security, name, None) for name in Security.__slots__}
        return {name: value for name, value in values.items() if value}

    def watch(self, patience_s: float) -> None:
        patience_s = self._patience(patience_s)
        if self._watch is None:
            *workers, scheduler = self._children
            self._watch = Watch(scheduler, patience_s, workers)
        self._watch.patience_s = patience_s

    def death(self, patience_s: float = 0) -> str | None:
        scheduler = self._children[-1]
        death = scheduler.death(patience_s)
        if scheduler.reason:
            return death
        return f"{death}; its log ends: {scheduler.last_words()}" if death else None

    def log(self) -> bytes:
        return self._children[-1].logged()

    def is_whole(self) -> bool:
        return not any(child.death() for child in self._children)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.end()
            self._watch = None
        for child in self._children:
            child.hang_up()
        for child in self._children:
            child.reap()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._removal.detach()


def _remove(directory: Path, owner: int) -> None:
    """Remove a cluster's directory, but not in a process that was forked from its owner."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _temporary_security() -> Security:
    try:
        security: Security = Security.temporary()
    except ImportError as error:
        raise ClusterError(
            "schedprof: cluster option tls makes certificates with the package cryptography, "
            "which is not installed here: pip install cryptography"
        ) from error
    return security


class LocalProcesses(OwnCluster):
    """One process for the scheduler, and one that all workers share."""

    kind = "local"

    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        order = {
            "role": "workers",
            "count": workers,
            "options": {
                "host": HOST,
                "nthreads": threads,
                "dashboard": False,
                # All share a process, so no worker knows its own memory.
                "memory_limit": 0,
                "local_directory": str(self._directory),
                **worker_options(options),
            },
        }
        return [order] if workers else []


WORKERS_PER_PROCESS = 2500
"""Hollow workers per process: each takes two descriptors, whose number is limited."""


class SimulatedCluster(OwnCluster):
    """One process for the scheduler, and a few for all workers."""

    kind = "simulated"

    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        return [
            {
                "role": "hollow-workers",
                "first": first,
                "count": min(WORKERS_PER_PROCESS, workers - first),
                "threads": threads,
                "block": 1 + number,
                "options": dict(options),
            }
            for number, first in enumerate(range(0, workers, WORKERS_PER_PROCESS))
        ]
