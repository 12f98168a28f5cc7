"""Behaviour of hollow workers: how long tasks take, how large results are, how often they fail."""

from __future__ import annotations

import math
import random
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from dask.config import get as get_config
from dask.utils import parse_bytes
from distributed.worker_state_machine import WorkerState

from pytest_schedprof.errors import SchedprofError, SettingsError
from pytest_schedprof.formats.workload import check_file, read_file
from pytest_schedprof.model.options import Reader, read_seconds, read_size
from pytest_schedprof.model.workload import Result, Task, Workforce, Workload, workforce_of
from pytest_schedprof.virtual.executor import target_of_memory

Draw: TypeAlias = Callable[[random.Random], float]
"""Returns one value of a distribution."""

Unit: TypeAlias = Callable[[str], float]
"""Reads a value that has a unit."""

DrawFor: TypeAlias = Callable[[str], Draw]
"""Returns the distribution for a prefix of tasks."""


class Fixed:
    """A distribution of one value."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, rng: random.Random) -> float:
        return self.value

    def again(self) -> float:
        """Return the value without drawing it."""
        return self.value


def _uniform(low: float, high: float) -> Draw:
    if low > high:
        raise ValueError(f"{low} > {high}")
    return lambda rng: rng.uniform(low, high)


def _exponential(mean: float) -> Draw:
    return lambda rng: rng.expovariate(1 / mean) if mean else 0.0


def _lognormal(median: float, sigma: float) -> Draw:
    return lambda rng: median * math.exp(rng.gauss(0.0, sigma))


KINDS: dict[str, tuple[int, Callable[..., Draw]]] = {
    "fixed": (1, Fixed),
    "uniform": (2, _uniform),
    "exponential": (1, _exponential),
    "lognormal": (2, _lognormal),
}
"""Number of values that each distribution takes; the second value of `lognormal` has no unit."""

_CALL = re.compile(r"(\w+)\((.*)\)")


def read_distribution(text: str, unit: Unit) -> Draw:
    """Return the distribution that a text describes.

    Raises:
        ValueError: if it describes none.
    """
    call = _CALL.fullmatch(text.strip())
    name, inside = call.groups() if call else ("fixed", text)
    count, make = KINDS.get(name, (0, Fixed))
    parts = [part.strip() for part in inside.split(",")]
    if len(parts) != count:
        raise ValueError(text)
    units = [unit, float if name == "lognormal" else unit]
    values = [read(part) for read, part in zip(units, parts, strict=False)]
    if any(not 0 <= value < math.inf for value in values):
        raise ValueError(text)
    return make(*values)


def read_by_prefix(text: str, unit: Unit) -> DrawFor:
    """Return the distributions that a text describes: `10ms; load: 1s; inc: uniform(1s, 2s)`.

    The first is for all prefixes that are not named.

    Raises:
        ValueError: if it describes none.
    """
    general, *named = text.split(";")
    default = read_distribution(general, unit)
    by_prefix: dict[str, Draw] = {}
    for part in named:
        prefix, colon, value = part.rpartition(":")
        if not colon or not prefix.strip():
            raise ValueError(text)
        by_prefix[prefix.strip()] = read_distribution(value, unit)
    return lambda prefix: by_prefix.get(prefix, default)


class RecordedTasks:
    """Results by the names that tasks have in a replay; read when they are first needed."""

    def __init__(self, path: str) -> None:
        """Check the head of the file.

        Args:
            path: of the file, or the name of a recorded workload that is shipped.

        Raises:
            SettingsError: it cannot be read, or is something else.
        """
        self._path = path
        try:
            check_file(path)
        except SchedprofError as error:
            text = str(error).removeprefix("schedprof: ")
            raise SettingsError(f"schedprof: cluster option workload: {text}") from None

    def of(self, key: Any) -> Result | None:
        """Return how a task ended in reality."""
        return self._results.get(key)

    @property
    def bandwidth(self) -> float:
        """Bytes per second of transfers, 0 if that is not known."""
        return self._workload.bandwidth

    @property
    def workforce(self) -> Workforce:
        return workforce_of(self._workload)

    @cached_property
    def _workload(self) -> Workload:
        return read_file(self._path)

    @cached_property
    def _results(self) -> dict[Any, Result]:
        workload = self._workload
        return {
            task.group.key(task.number): _as_retried(task, workload.results[task.number])
            for task in workload.tasks()
            if task.number in workload.results
        }


def _as_retried(task: Task, result: Result) -> Result:
    """Return a result with as many failed runs as the task's retries allow.

    Earlier ones came before a client retried a task that had failed for good.
    """
    if not result.failed:
        return result
    first = max(0, len(result.failed) - task.annotations.get("retries", 0))
    return replace(result, failed=result.failed[first:])


class NoRecordedTasks:
    """No recorded workload: all tasks have the durations and sizes of the other traits."""

    bandwidth = 0.0

    def of(self, key: Any) -> Result | None:
        return None


NO_LOG: deque[Any] = deque(maxlen=0)


class LateRandom:
    """A generator of random numbers, made at its first use, because it takes 2.5 kB."""

    __slots__ = ("_made", "_seed")

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._made: random.Random | None = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = random.Random(self._seed)
        return getattr(self._made, name)


def make_state(address: str, nthreads: int, data: Any = None) -> WorkerState:
    """Return the state machine of a worker, without logs, which would have up to 1000 entries."""
    state = WorkerState(
        address=address,
        nthreads=nthreads,
        data=data,
        validate=get_config("distributed.scheduler.validate"),
        transfer_incoming_count_limit=get_config("distributed.worker.connections.outgoing"),
        transfer_message_bytes_limit=parse_bytes(
            get_config("distributed.worker.transfer.message-bytes-limit")
        ),
    )
    state.log = state.stimulus_log = NO_LOG
    state.rng = LateRandom(0)  # type: ignore[assignment]
    return state


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def _speed(text: str) -> float:
    return _positive(str(read_size(text)))


def _speed_if_any(text: str) -> float:
    return math.inf if text == FREE else _speed(text)


def _workload(text: str) -> Any:
    return NoRecordedTasks() if text == NO_FILE else RecordedTasks(text)


_duration = partial(read_by_prefix, unit=read_seconds)
_size = partial(read_by_prefix, unit=read_size)
_delay = partial(read_distribution, unit=read_seconds)
_factor = partial(read_distribution, unit=_positive)

NO_FILE = "none"

FREE = "free"
"""Value of a speed for what takes no time."""

A_DISTRIBUTION = "or uniform(LOW, HIGH), exponential(MEAN), lognormal(MEDIAN, SIGMA)"

BY_PREFIX = "; and others by prefix of the task: '10ms; load: 1s'"

TRAITS: Mapping[str, tuple[str, Reader]] = {
    "duration": ("1ms", Reader(_duration, f"a time such as 50ms, {A_DISTRIBUTION}{BY_PREFIX}")),
    "nbytes": ("28", Reader(_size, f"a size such as 1MB, {A_DISTRIBUTION}{BY_PREFIX}")),
    "failures": ("0", Reader(_rate, "a part of all tasks, from 0 to 1")),
    "speed": ("1", Reader(_factor, f"a positive number, {A_DISTRIBUTION}")),
    "bandwidth": ("100MB", Reader(_speed, "bytes per second, such as 1GB")),
    "latency": ("1ms", Reader(_delay, f"a time such as 1ms, {A_DISTRIBUTION}")),
    "memory_limit": ("4GiB", Reader(_speed, "a size such as 4GiB")),
    "disk": (FREE, Reader(_speed_if_any, f"bytes per second, such as 200MB, or {FREE!r}")),
    "seed": ("0", Reader(int, "a whole number")),
    "workload": (NO_FILE, Reader(_workload, "a recorded workload")),
}
"""Options of all hollow workers: the default, and how a value is read."""

VIRTUAL_TRAITS: Mapping[str, tuple[str, Reader]] = {
    **TRAITS,
    "faults": ("0", Reader(_rate, "a part of all tasks, from 0 to 1")),
    "horizon": ("7d", Reader(lambda text: _positive(str(read_seconds(text))), "a time such as 1d")),
}
"""Those of clusters in virtual time."""


def read_trait(name: str, options: Mapping[str, str]) -> Any:
    """Read a trait from options, or its default.

    Raises:
        SettingsError: names the value and what it must be.
    """
    default, reader = VIRTUAL_TRAITS[name]
    return reader.value(f"cluster option {name}", options.get(name, default))


DROPPED = ("scheduler-remove-worker", "worker-heartbeat-missing")
"""Reasons of workers that close because the scheduler removed them: its message, or its answer to a
heartbeat that was sent just before that message arrived."""

SLOWEST = 0.001
"""Lowest speed of a worker, because distributions have values near zero."""


@dataclass(slots=True)
class Behaviour:
    """The traits of the workers of one process.

    Each prefix of tasks has its own random sequence, which is the same for the same seed.
    """

    duration: DrawFor
    nbytes: DrawFor
    failures: float
    speed: Draw
    bandwidth: float
    latency: Draw
    """Seconds of a transfer in addition to the time for its bytes."""
    memory_limit: float
    """Limit of each worker's memory in bytes."""
    disk: float
    """Bytes per second for results that do not fit into memory."""
    seed: int
    workload: RecordedTasks | NoRecordedTasks
    """The recorded tasks; all others have the traits above."""
    _attempts: dict[Any, int] = field(default_factory=dict)
    """How often recorded tasks have failed so far, if they fail before they succeed."""
    _sources: dict[tuple[str, str], random.Random] = field(default_factory=dict)

    def seconds(self, key: Any, prefix: str) -> float:
        """Return for how many seconds a task runs."""
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
        """Return whether a task fails; called once at the end of each run."""
        if (recorded := self.workload.of(key)) is not None:
            attempt = self._attempts.pop(key, 0)
            if attempt == len(recorded.failed):
                return recorded.is_error
            self._attempts[key] = attempt + 1
            return True
        rate = self.failures
        return rate > 0 and self._source(prefix, "failures").random() < rate

    def speed_of(self, worker: str) -> float:
        """Return how fast a worker runs tasks; always the same for its name."""
        return max(SLOWEST, self.speed(random.Random(f"{self.seed}:{worker}:speed")))

    def seconds_on_way(self, link: str) -> Callable[[], float]:
        """Return a function that draws the latency of the next message on a link.

        A link has its own random sequence, which messages on other links do not change.
        """
        if isinstance(self.latency, Fixed):
            return self.latency.again
        late: Any = LateRandom(f"{self.seed}:{link}:latency")
        return partial(self.latency, late)

    def transfer_seconds(self, nbytes: int, latency: float) -> float:
        """Return how long a transfer takes on a free network."""
        return latency + nbytes / self.bandwidth

    def _source(self, prefix: str, purpose: str) -> random.Random:
        if (prefix, purpose) not in self._sources:
            self._sources[prefix, purpose] = random.Random(f"{self.seed}:{prefix}:{purpose}")
        return self._sources[prefix, purpose]


def read_behaviour(options: Mapping[str, str]) -> Behaviour:
    """Read the behaviour from options; traits that are not given have their defaults.

    The bandwidth is by default that of the recorded workload, if its workers measured it.

    Raises:
        SettingsError: names the value and what it must be.
    """
    target_of_memory()  # a wrong one would end the cluster when its first task runs
    behaviour = Behaviour(**{name: read_trait(name, options) for name in TRAITS})
    if "bandwidth" not in options and behaviour.workload.bandwidth:
        behaviour.bandwidth = behaviour.workload.bandwidth
    return behaviour
