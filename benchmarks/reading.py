"""Reading a long test's profile: a 100 MB speedscope file, from bytes to shares with bounds.

    python benchmarks/reading.py [--megabytes N] [--repeats N]

The file is as py-spy writes it. Each time a fresh process reads it, so that nothing is cached.
Memory is the peak of that whole process, the file's own bytes included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from figures import closing_line
from speedscope_file import SITE, write_file

from pytest_schedprof.analysis.shares import shares_of
from pytest_schedprof.formats.frames import name_frames
from pytest_schedprof.formats.speedscope import read_speedscope

ASKED_S = 3.0
ASKED_MB = 1000
STEPS = ("load", "parse", "name", "tally", "bounds")


def name_places(places: list[tuple[str, str, int]]) -> list[str]:
    """What the scheduler would answer, from the file's path alone."""
    start, end = len(SITE) + 1, -len(".py")
    return [f"{file[start:end].replace('/', '.')}:{name}" for file, name, _ in places]


def read(path: Path) -> None:
    """In the fresh process: seconds of each step, peak megabytes, and what was found."""
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
    samples = sum(len(thread.samples) for thread in profile.threads)
    found = f"{samples} samples, {len(profile.stacks)} stacks, {functions} functions, "
    steps = [after - before for before, after in pairwise(times)]
    print(json.dumps([steps, peak_megabytes(), f"{found}{owners} owners"]))


def peak_megabytes() -> float:
    """The most memory that this process ever held; macOS counts bytes, Linux kilobytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def read_afresh(path: Path) -> tuple[list[float], float, str]:
    """The steps' seconds, megabytes and findings of a fresh process."""
    output = subprocess.check_output([sys.executable, __file__, "--read", str(path)])
    steps, megabytes, found = json.loads(output)
    return steps, megabytes, found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "profile.json")
        write_file(path, given.megabytes * 10**6)
        print(f"{path.stat().st_size / 1e6:.1f} MB")
        report([read_afresh(path) for _ in range(given.repeats)])


def report(runs: list[tuple[list[float], float, str]]) -> None:
    """Each step's median, the whole, and the two asked figures."""
    print(runs[0][2])
    for number, step in enumerate(STEPS):
        print(f"{step:7s} {median(run[0][number] for run in runs):6.3f} s (median)")
    totals = [sum(run[0]) for run in runs]
    print(f"all     {median(totals):6.3f} s (median), {min(totals):.3f} s (best of {len(runs)})")
    print(closing_line("seconds, median", median(totals), ASKED_S, " s"))
    print(closing_line("peak memory", max(run[1] for run in runs), ASKED_MB, " MB"))


if __name__ == "__main__":
    main()
