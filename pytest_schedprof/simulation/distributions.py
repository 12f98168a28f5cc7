"""Read fixed values and distributions from text, as `50ms` or `uniform(1kB, 1MB)`."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import TypeAlias

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
    for each in named:
        prefix, colon, value = each.rpartition(":")
        if not colon or not prefix.strip():
            raise ValueError(text)
        by_prefix[prefix.strip()] = read_distribution(value, unit)
    return lambda prefix: by_prefix.get(prefix, default)
