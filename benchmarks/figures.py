"""Helpers of the benchmarks: order of runs, fresh processes, intervals, closing lines."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

RESAMPLES = 4000


def interleaved(arms: Sequence[str], repeats: int) -> Iterator[str]:
    """Yield A B B A A B ..., so that a machine whose speed changes affects all arms alike."""
    for number in range(repeats):
        yield from arms if number % 2 == 0 else reversed(arms)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    generator = random.Random(1)
    medians = sorted(median(generator.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def closing_line(title: str, value: float, most: float, unit: str = "") -> str:
    """Text of a figure, the most that was asked, and whether it was reached."""
    verdict = "reached" if value <= most else "NOT reached"
    return f"{title}: {value:.4g}{unit}, asked: at most {most:g}{unit}: {verdict}"


def peak_megabytes() -> float:
    """The most memory that this process ever held; macOS counts bytes, Linux kilobytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def read_afresh(program: str, path: Path) -> tuple[list[float], float, str]:
    """Read a file in a fresh process; return its seconds by step, megabytes and findings."""
    output = subprocess.check_output([sys.executable, program, "--read", str(path)])
    steps, megabytes, summary = json.loads(output)
    return steps, megabytes, summary


def report_reading(
    runs: list[tuple[list[float], float, str]],
    steps: Sequence[str],
    asked_s: float,
    asked_mb: float,
) -> None:
    """Print the median of each step, the total, and the two asked figures."""
    print(runs[0][2])
    for number, step in enumerate(steps):
        print(f"{step:7s} {median(run[0][number] for run in runs):6.3f} s (median)")
    totals = [sum(run[0]) for run in runs]
    print(closing_line("seconds, median", median(totals), asked_s, " s"))
    print(closing_line("peak memory", max(run[1] for run in runs), asked_mb, " MB"))
