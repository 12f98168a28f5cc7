"""Measure reading a long test's profile: a 100 MB speedscope file, from bytes to shares.

    python benchmarks/reading.py [--megabytes N] [--repeats N]

The file is as py-spy writes it, and the shares have bounds. A fresh process reads it each time,
so that nothing is cached. Memory is the peak of that process, with the bytes of the file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from figures import peak_megabytes, read_afresh, report_reading
from speedscope_file import SITE, write_file

from pytest_schedprof.formats.speedscope import name_frames, read_speedscope
from pytest_schedprof.judge.shares import shares_of

ASKED_S = 3.0
ASKED_MB = 1000
STEPS = ("load", "parse", "name", "tally", "bounds")


def name_places(places: list[tuple[str, str, int]]) -> list[str]:
    """Name functions as the scheduler would, from the path of the file alone."""
    start, end = len(SITE) + 1, -len(".py")
    return [f"{file[start:end].replace('/', '.')}:{name}" for file, name, _ in places]


def read(path: Path) -> None:
    """Print seconds of each step, peak megabytes and findings; runs in the fresh process."""
    times = [time.perf_counter()]
    content = path.read_bytes()
    times.append(time.perf_counter())
    parsed = read_speedscope(content)
    times.append(time.perf_counter())
    profile = name_frames(parsed, name_places, backend="pyspy", mode="")
    times.append(time.perf_counter())
    shares = shares_of([[profile]], drift=0.1)
    times.append(time.perf_counter())
    functions, owners = len(shares.functions()), len(shares.owners())
    times.append(time.perf_counter())
    samples = sum(len(thread) for thread in profile.threads)
    summary = f"{samples} samples, {len(profile.stacks)} stacks, {functions} functions, "
    steps = [after - before for before, after in pairwise(times)]
    print(json.dumps([steps, peak_megabytes(), f"{summary}{owners} owners"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.read)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "profile.json")
        write_file(path, arguments.megabytes * 10**6)
        print(f"{path.stat().st_size / 1e6:.1f} MB")
        report_reading(
            [read_afresh(__file__, path) for _ in range(arguments.repeats)],
            STEPS,
            ASKED_S,
            ASKED_MB,
        )


if __name__ == "__main__":
    main()
