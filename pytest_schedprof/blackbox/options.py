"""Options of the black box, from dask's configuration below `schedprof.blackbox`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from dask.utils import parse_timedelta

from pytest_schedprof.errors import SettingsError, quoted

MOST_SAMPLES = 20_000
"""Samples that the ring may hold: they take up to 10 MB, and packing them as much again."""


@dataclass(frozen=True, slots=True)
class Options:
    """How much is kept, and when it is written."""

    directory: Path = Path("schedprof-blackbox")
    """Runs are written here."""
    window: float = 300.0
    """Seconds that the ring goes back."""
    rate: float = 20.0
    """Samples for each second of CPU time."""
    stall: float = 1.0
    """Seconds of CPU time from which on a callback that takes so many is written."""
    lag: float = 5.0
    """Seconds by the clock from which on it is written that the loop was late by them."""
    core: float = 0.95
    """Fraction of a core from which on the loop's thread fills it."""
    every: float = 600.0
    """Seconds between two runs that are written because something happened."""
    keep: int = 10
    """Runs that stay in the directory."""
    prometheus: bool = True
    """Whether to add figures to the scheduler's page for Prometheus."""


def read_options(given: Mapping[str, Any]) -> Options:
    """Return the options.

    Raises:
        SettingsError: one is unknown, or has a value that cannot be.
    """
    options = Options()
    for written, value in given.items():
        name = written.replace("-", "_")
        if name not in READERS:
            known = ", ".join(field.name for field in fields(Options))
            raise SettingsError(f"there is no option schedprof.blackbox.{written}; known: {known}")
        options = replace(options, **{name: _read(name, value)})
    if options.window * options.rate > MOST_SAMPLES:
        raise SettingsError(
            f"schedprof.blackbox.window ({options.window:g} s) times schedprof.blackbox.rate "
            f"({options.rate:g}) is more than {MOST_SAMPLES} samples, which need too much memory"
        )
    return options


def _read(name: str, value: Any) -> Any:
    reader, wanted = READERS[name]
    try:
        return reader(value)
    except (ValueError, TypeError, KeyError):
        raise SettingsError(
            f"schedprof.blackbox.{name} must be {wanted}, got {quoted(value)}"
        ) from None


def _between(least: float, most: float, read: Callable[[Any], float]) -> Callable[[Any], float]:
    def reader(value: Any) -> float:
        if isinstance(value, bool) or not least <= (number := read(value)) <= most:
            raise ValueError
        return number

    return reader


def _seconds(value: Any) -> float:
    return float(parse_timedelta(value, default="s"))


def _fraction(value: Any) -> float:
    if isinstance(value, str) and value.endswith("%"):
        return float(value[:-1]) / 100
    return float(value)


def _whole(value: Any) -> int:
    if float(value) != int(value):
        raise ValueError
    return int(value)


def _path(value: Any) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError
    return Path(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "directory": (_path, "a path"),
    "window": (_between(20, 3600, _seconds), "a time between 20s and 1h"),
    "rate": (_between(1, 100, float), "a number between 1 and 100"),
    "stall": (_between(0.1, 3600, _seconds), "a time between 0.1s and 1h"),
    "lag": (_between(0.2, 3600, _seconds), "a time between 0.2s and 1h"),
    "core": (_between(0.1, 1, _fraction), "a fraction between 10% and 100%"),
    "every": (_between(0, 1e7, _seconds), "a time"),
    "keep": (_between(1, 1000, _whole), "a number between 1 and 1000"),
    "prometheus": (_switch, "true or false"),
}
"""How the value of each option is read, and what it must be, in words."""
