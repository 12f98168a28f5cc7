"""Behaviour of hollow workers: how long tasks take, how large results are, how often they fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_schedprof.model.workload import Result
from pytest_schedprof.simulation.distributions import Draw, DrawFor, Fixed
from pytest_schedprof.simulation.machine import LateRandom
from pytest_schedprof.simulation.recorded import NoRecordedTasks, RecordedTasks
from pytest_schedprof.simulation.spilling import target_of_memory
from pytest_schedprof.simulation.traits import TRAITS, read_trait

DROPPED = ("scheduler-remove-worker", "worker-heartbeat-missing")
"""Reasons for which a worker closes after the scheduler removed it: the scheduler's message, or the
answer to a heartbeat that was sent just before that message arrived."""


SLOWEST = 0.001
"""Least speed of a worker, because distributions have values near zero."""


@dataclass(slots=True)
class Behaviour:
    """The traits of the workers of one process.

    Each prefix of tasks has its own random sequence, which is the same for the same seed.
    """

    duration: DrawFor
    nbytes: DrawFor
    failures: float
    long_running: float
    speed: Draw
    bandwidth: float
    latency: Draw
    """Seconds of a transfer in addition to the time for its bytes."""
    serialisation: float
    """Bytes per second, at the sender and again at the receiver."""
    memory_limit: float
    """Limit of each worker's memory in bytes."""
    disk: float
    """Bytes per second for results that do not fit into memory."""
    time_scale: float
    """Simulated seconds per second of the clock."""
    seed: int
    workload: RecordedTasks | NoRecordedTasks
    """What tasks took that were recorded. All others have the traits above."""
    _attempts: dict[Any, int] = field(default_factory=dict)
    """How often recorded tasks have failed, of those that fail before they succeed."""
    _sources: dict[tuple[str, str], random.Random] = field(default_factory=dict)

    def seconds(self, key: Any, prefix: str) -> float:
        """Return how long a task takes, in simulated seconds."""
        if (recorded := self.workload.of(key)) is not None:
            if recorded.failed:
                return (*recorded.failed, recorded.seconds)[self._attempts.get(key, 0)]
            return recorded.seconds
        return self.duration(prefix)(self._source(prefix, "duration"))

    def size(self, key: Any, prefix: str) -> int:
        """Return the size in bytes of the result of a task."""
        if (recorded := self.workload.of(key)) is not None:
            return recorded.nbytes
        return round(self.nbytes(prefix)(self._source(prefix, "nbytes")))

    def fails(self, key: Any, prefix: str) -> bool:
        """Return whether a task fails now that it ends; each of its runs asks once."""
        if (recorded := self.workload.of(key)) is not None:
            return self._fails_again(key, recorded)
        return self._happens(prefix, "failures", self.failures)

    def _fails_again(self, key: Any, recorded: Result) -> bool:
        """Return whether this run of a recorded task fails, and count it if others follow."""
        attempt = self._attempts.pop(key, 0)
        if attempt == len(recorded.failed):
            return recorded.is_error
        self._attempts[key] = attempt + 1
        return True

    def secedes(self, prefix: str) -> bool:
        """Return whether the next task of a prefix secedes from its thread."""
        return self._happens(prefix, "long_running", self.long_running)

    def speed_of(self, worker: str) -> float:
        """Return how fast a worker runs tasks; always the same for its name."""
        return max(SLOWEST, self.speed(random.Random(f"{self.seed}:{worker}:speed")))

    def seconds_on_way(self, link: str) -> Callable[[], float]:
        """Return what draws how long the next message on a link takes.

        Each link has its own random sequence, so messages of others do not change it.
        """
        if isinstance(self.latency, Fixed):
            return self.latency.again
        late: Any = LateRandom(f"{self.seed}:{link}:latency")
        return partial(self.latency, late)

    def transfer_seconds(self, nbytes: int, latency: float) -> float:
        """Return how long a transfer takes if nothing else is on the way."""
        handling = 2 * nbytes / self.serialisation
        return latency + handling + nbytes / self.bandwidth

    def _happens(self, prefix: str, what: str, rate: float) -> bool:
        return rate > 0 and self._source(prefix, what).random() < rate

    def _source(self, prefix: str, what: str) -> random.Random:
        if (prefix, what) not in self._sources:
            self._sources[prefix, what] = random.Random(f"{self.seed}:{prefix}:{what}")
        return self._sources[prefix, what]


def read_behaviour(options: Mapping[str, str]) -> Behaviour:
    """Read the behaviour from options; traits that are not given have their defaults.

    The bandwidth is that of the recorded workload, if there is one and its workers measured it.

    Raises:
        SettingsError: names the value and what it must be.
    """
    target_of_memory()  # a wrong one would end the cluster when its first task runs
    behaviour = Behaviour(**{name: read_trait(name, options) for name in TRAITS})
    if "bandwidth" not in options and behaviour.workload.bandwidth:
        behaviour.bandwidth = behaviour.workload.bandwidth
    return behaviour
