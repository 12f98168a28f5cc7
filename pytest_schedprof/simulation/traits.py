"""The options of hollow workers: how long tasks take, how large results are, what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dask.utils import parse_bytes, parse_timedelta

from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.simulation.distributions import read_by_prefix, read_distribution
from pytest_schedprof.simulation.recorded import NoRecordedTasks, RecordedTasks


def _seconds(text: str) -> float:
    return float(parse_timedelta(text, default="s"))


def _bytes(text: str) -> float:
    return float(parse_bytes(text))


def _duration(text: str) -> Any:
    return read_by_prefix(text, _seconds)


def _size(text: str) -> Any:
    return read_by_prefix(text, _bytes)


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _delay(text: str) -> Any:
    return read_distribution(text, _seconds)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def _speed(text: str) -> float:
    return _positive(str(_bytes(text)))


def _speed_if_any(text: str) -> float:
    return math.inf if text == FREE else _speed(text)


def _factor(text: str) -> Any:
    return read_distribution(text, _positive)


def _workload(text: str) -> Any:
    return NoRecordedTasks() if text == NO_FILE else RecordedTasks(text)


@dataclass(frozen=True, slots=True)
class Trait:
    """One option of hollow workers."""

    default: str
    read: Callable[[str], Any]
    wanted: str


NO_FILE = "none"

FREE = "free"
"""Value of a speed for what takes no time."""

A_DISTRIBUTION = "or uniform(LOW, HIGH), exponential(MEAN), lognormal(MEDIAN, SIGMA)"

BY_PREFIX = "; and others by prefix of the task: '10ms; load: 1s'"

TRAITS: Mapping[str, Trait] = {
    "duration": Trait("1ms", _duration, f"a time such as 50ms, {A_DISTRIBUTION}{BY_PREFIX}"),
    "nbytes": Trait("28", _size, f"a size such as 1MB, {A_DISTRIBUTION}{BY_PREFIX}"),
    "failures": Trait("0", _rate, "a part of all tasks, from 0 to 1"),
    "long_running": Trait("0", _rate, "a part of all tasks, from 0 to 1"),
    "speed": Trait("1", _factor, f"a positive number, {A_DISTRIBUTION}"),
    "bandwidth": Trait("100MB", _speed, "bytes per second, such as 1GB"),
    "latency": Trait("1ms", _delay, f"a time such as 1ms, {A_DISTRIBUTION}"),
    "serialisation": Trait(FREE, _speed_if_any, f"bytes per second, such as 1GB, or {FREE!r}"),
    "memory_limit": Trait("4GiB", _speed, "a size such as 4GiB"),
    "disk": Trait(FREE, _speed_if_any, f"bytes per second, such as 200MB, or {FREE!r}"),
    "time_scale": Trait("1", _positive, "a positive number"),
    "seed": Trait("0", int, "a whole number"),
    "workload": Trait(NO_FILE, _workload, "a recorded workload"),
}
"""Traits of all hollow workers."""

VIRTUAL_TRAITS: Mapping[str, Trait] = {
    **TRAITS,
    "faults": Trait("0", _rate, "a part of all tasks, from 0 to 1"),
    "horizon": Trait("7d", lambda text: _positive(str(_seconds(text))), "a time such as 1d"),
}
"""Those of clusters in virtual time."""


def read_trait(name: str, options: Mapping[str, str]) -> Any:
    """Read a trait from options, or its default.

    Raises:
        SettingsError: names the value and what it must be.
    """
    trait = VIRTUAL_TRAITS[name]
    text = options.get(name, trait.default)
    try:
        return trait.read(text)
    except (ValueError, KeyError, IndexError, OverflowError):  # dask's parsers raise any of these
        raise SettingsError(
            f"schedprof: cluster option {name} must be {trait.wanted}, got {quoted(text)}"
        ) from None
