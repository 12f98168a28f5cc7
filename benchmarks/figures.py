"""What the benchmarks share: the order of the runs, intervals, and the closing line."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from statistics import median

RESAMPLES = 4000


def interleaved(arms: Sequence[str], repeats: int) -> Iterator[str]:
    """A B B A A B ...: a machine that slows down or speeds up does so for all arms alike."""
    for number in range(repeats):
        yield from arms if number % 2 == 0 else reversed(arms)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    generator = random.Random(1)
    medians = sorted(median(generator.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def closing_line(what: str, value: float, asked: float, unit: str = "") -> str:
    """The asked figure, and whether it was reached."""
    verdict = "reached" if value <= asked else "NOT reached"
    return f"{what}: {value:.4g}{unit}, asked: at most {asked:g}{unit}: {verdict}"
