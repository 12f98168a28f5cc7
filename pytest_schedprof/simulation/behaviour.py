"""Behaviour of hollow workers: how long tasks take, how large results are, how often they fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dask.utils import parse_bytes, parse_timedelta

from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.simulation.distributions import Draw, read_distribution

DROPPED = ("scheduler-remove-worker", "worker-heartbeat-missing")
"""Reasons for which a worker closes after the scheduler removed it: the scheduler's message, or the
answer to a heartbeat that was sent just before that message arrived."""


def _seconds(text: str) -> float:
    return float(parse_timedelta(text, default="s"))


def _bytes(text: str) -> float:
    return float(parse_bytes(text))


def _duration(text: str) -> Draw:
    return read_distribution(text, _seconds)


def _size(text: str) -> Draw:
    return read_distribution(text, _bytes)


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _time(text: str) -> float:
    value = _seconds(text)
    if value < 0:
        raise ValueError(text)
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def _speed(text: str) -> float:
    return _positive(str(_bytes(text)))


@dataclass(frozen=True, slots=True)
class Trait:
    """One option of hollow workers."""

    default: str
    read: Callable[[str], Any]
    wanted: str


A_DISTRIBUTION = "or uniform(LOW, HIGH), exponential(MEAN), lognormal(MEDIAN, SIGMA)"

TRAITS: Mapping[str, Trait] = {
    "duration": Trait("1ms", _duration, f"a time such as 50ms, {A_DISTRIBUTION}"),
    "nbytes": Trait("28", _size, f"a size such as 1MB, {A_DISTRIBUTION}"),
    "failures": Trait("0", _rate, "a part of all tasks, from 0 to 1"),
    "long_running": Trait("0", _rate, "a part of all tasks, from 0 to 1"),
    "bandwidth": Trait("100MB", _speed, "bytes per second, such as 1GB"),
    "latency": Trait("1ms", _time, "a time such as 1ms"),
    "time_scale": Trait("1", _positive, "a positive number"),
    "seed": Trait("0", int, "a whole number"),
}


@dataclass(slots=True)
class Behaviour:
    """The traits of the workers of one process.

    Each prefix of tasks has its own random sequence, which is the same for the same seed.
    """

    duration: Draw
    nbytes: Draw
    failures: float
    long_running: float
    bandwidth: float
    latency: float
    """Seconds of a transfer in addition to the time for its bytes."""
    time_scale: float
    """Simulated seconds per second of the clock."""
    seed: int
    _sources: dict[tuple[str, str], random.Random] = field(default_factory=dict)

    def seconds(self, prefix: str) -> float:
        """Return how long the next task of a prefix takes, in simulated seconds."""
        return self.duration(self._source(prefix, "duration"))

    def size(self, prefix: str) -> int:
        """Return the size in bytes of the next result of a prefix."""
        return round(self.nbytes(self._source(prefix, "nbytes")))

    def fails(self, prefix: str) -> bool:
        """Return whether the next task of a prefix fails."""
        return self._happens(prefix, "failures", self.failures)

    def secedes(self, prefix: str) -> bool:
        """Return whether the next task of a prefix secedes from its thread."""
        return self._happens(prefix, "long_running", self.long_running)

    def _happens(self, prefix: str, what: str, rate: float) -> bool:
        return rate > 0 and self._source(prefix, what).random() < rate

    def _source(self, prefix: str, what: str) -> random.Random:
        if (prefix, what) not in self._sources:
            self._sources[prefix, what] = random.Random(f"{self.seed}:{prefix}:{what}")
        return self._sources[prefix, what]


def read_behaviour(options: Mapping[str, str]) -> Behaviour:
    """Read the behaviour from options; traits that are not given have their defaults.

    Raises:
        SettingsError: names the value and what it must be.
    """
    return Behaviour(**{name: _trait(name, options) for name in TRAITS})


def _trait(name: str, options: Mapping[str, str]) -> Any:
    trait = TRAITS[name]
    text = options.get(name, trait.default)
    try:
        return trait.read(text)
    except (ValueError, KeyError, IndexError, OverflowError):  # dask's parsers raise any of these
        raise SettingsError(
            f"schedprof: cluster option {name} must be {trait.wanted}, got {quoted(text)}"
        ) from None
