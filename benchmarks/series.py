"""Seeded histories with known steps and noise of the measured kinds, for change_points.py."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt

APART, FROM_ENDS = 15, 8
"""Least number of points between two steps, and before the first and after the last."""

BYTECODES, MICROSECONDS = 23456.0, 400.0


@dataclass(frozen=True)
class Series:
    """A history, the first points after its steps, and the least change that is asked for."""

    values: list[float]
    steps: list[int]
    relative: float
    absolute: float = 0.0


def _length(generator: random.Random) -> int:
    return generator.randint(60, 200)


def _places(generator: random.Random, length: int, counts: Sequence[int]) -> list[int]:
    """Draw places of steps that are not close to each other, again until they fit."""
    count = generator.choice(counts)
    while True:
        steps = sorted(generator.randrange(FROM_ENDS, length - FROM_ENDS) for _ in range(count))
        if all(b - a >= APART for a, b in pairwise(steps)):
            return steps


def _levels(
    generator: random.Random, length: int, steps: Sequence[int], least: float, most: float
) -> Iterator[float]:
    """Yield levels: 1 at first, then changed at each step; on average, three of five steps rise."""
    level = 1.0
    for number in range(length):
        if number in steps:
            factor = 1 + exp(generator.uniform(log(least), log(most)))
            level *= factor if generator.random() < 0.6 else 1 / factor
        yield level


def _counted(scatter: float) -> Callable[[random.Random], Series]:
    """Bytecodes per task: exact for the state machine, to 0.1 % for the whole."""

    def make(generator: random.Random) -> Series:
        length = _length(generator)
        steps = _places(generator, length, (0, 0, 1, 1, 2, 3))
        levels = _levels(generator, length, steps, 0.01, 0.05)
        values = [BYTECODES * level * (1 + generator.gauss(0, scatter)) for level in levels]
        return Series(values, steps, relative=0.005)

    return make


def share(generator: random.Random) -> Series:
    """Share with 1.2 times binomial noise over 400 to 1200 samples, and cputime's drift."""
    length = _length(generator)
    steps = _places(generator, length, (0, 0, 1, 1, 2, 3))
    value, values = generator.uniform(0.15, 0.4), []
    for number in range(length):
        if number in steps:
            size = generator.uniform(0.05, 0.12)
            value += size if value < 0.2 or generator.random() < 0.6 else -size
        ratio = 1.2**2 / generator.randint(400, 1200) + 0.05**2
        values.append(generator.gauss(value, sqrt(value * (1 - value) * ratio)))
    return Series(values, steps, relative=0.0, absolute=0.02)


def _cpu(
    *,
    lasting: float = 0.0,
    ramp: Callable[[random.Random, int], list[float]] | None = None,
    steps: Sequence[int] = (0, 0, 1, 1, 2, 3),
    least: float = 0.1,
) -> Callable[[random.Random], Series]:
    """CPU per task, with a CV of 7 to 12 %, and one of 33 windows far out."""

    def make(generator: random.Random) -> Series:
        length, cv, error = _length(generator), generator.uniform(0.07, 0.12), 0.0
        places, values = _places(generator, length, steps), []
        slow = ramp(generator, length) if ramp else [1.0] * length
        levels = _levels(generator, length, places, least, 0.5)
        for level, factor in zip(levels, slow, strict=True):
            error = lasting * error + sqrt(1 - lasting**2) * generator.gauss(0, cv)
            outlying = generator.uniform(1.3, 2.0) if generator.random() < 0.03 else 1.0
            values.append(MICROSECONDS * level * factor * exp(error) * outlying)
        return Series(values, places, relative=0.05)

    return make


def _throughout(generator: random.Random, length: int) -> list[float]:
    """A change of 25 to 60 % over the whole history, up or down."""
    total, sign = generator.uniform(0.25, 0.6), generator.choice([1, -1])
    return [(1 + total * number / length) ** sign for number in range(length)]


def _in_between(generator: random.Random, length: int) -> list[float]:
    """The same change, but within the middle of a history that is level before and after."""
    total, sign = generator.uniform(0.25, 0.6), generator.choice([1, -1])
    first = generator.randint(5, length // 2 - 20)
    last = generator.randint(length // 2 + 20, length - 5)
    risen = [min(max((number - first) / (last - first), 0.0), 1.0) for number in range(length)]
    return [(1 + total * part) ** sign for part in risen]


def bimodal(generator: random.Random) -> Series:
    """CPU per task, when either of two machines may run a test and one is a quarter slower."""
    length, slower = _length(generator), generator.uniform(0.2, 0.5)
    steps = _places(generator, length, (0, 0, 1, 1, 2, 3))
    values = [
        MICROSECONDS
        * level
        * exp(generator.gauss(0, 0.04))
        * (1.25 if generator.random() < slower else 1.0)
        for level in _levels(generator, length, steps, 0.15, 0.5)
    ]
    return Series(values, steps, relative=0.05)


KINDS: dict[str, Callable[[random.Random], Series]] = {
    "counts, exact": _counted(0.0),
    "counts, to 0.1 %": _counted(0.001),
    "share": share,
    "cpu": _cpu(),
    "cpu, lasting noise": _cpu(lasting=0.4),
    "cpu, two machines": bimodal,
    "cpu, trend": _cpu(ramp=_throughout, steps=(0,)),
    "cpu, trend between": _cpu(ramp=_in_between, steps=(0,)),
    "cpu, trend and step": _cpu(ramp=_throughout, steps=(0, 1), least=0.25),
}


def histories(kind: str, count: int, seed: int) -> list[Series]:
    """Histories of a kind; the same seed gives the same ones on any machine."""
    return [KINDS[kind](random.Random(f"{kind} {seed} {number}")) for number in range(count)]
