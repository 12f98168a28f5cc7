"""Measure how true replays are if another release of distributed recorded the work.

    python benchmarks/cross_replaying.py [--releases 2024.8.1 2026.8.0] [--shapes NAME ...]

Environments with these releases are made as for `--schedprof-against`. In each of them shapes of
work run on a virtual cluster and are recorded, and each recording is replayed in each of them. The
figures are ratios to the recorded run: transitions per task, the makespan from the first graph to
the last end, and bytes that were sent between workers. A newer release may decide otherwise, so
`work` says how the same work differs there without a recording.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from figures import closing_line
from replaying import BYTES, MAKESPAN, OPTIONS, TRANSITIONS, WORK, Figures, ratios, run

from pytest_schedprof.clusters.environments import default_cache, interpreter_for
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.workloads import replay

RELEASES = ("2024.8.1", "2026.8.0")
SHAPES = ("tree_reduction", "all_to_all", "anomaly_mean", "as_completed", "churn")
MAKING_S = 300.0

Row = tuple[float, float, float]


def in_this_release(name: str, recording: str, size: int, workers: int, path: str) -> Figures:
    """Do work, or replay a recording of it, and record that into a file."""
    if not recording:
        work = WORK[name]
        return run(VirtualCluster, workers, OPTIONS, lambda client: work(client, size), Path(path))
    options = {"workload": recording}
    return run(
        VirtualCluster, workers, options, lambda client: replay(client, recording), Path(path)
    )


class Release:
    """An interpreter that has a release of distributed."""

    def __init__(self, release: str, arguments: argparse.Namespace) -> None:
        self.name, self._arguments = release, arguments
        interpreter = interpreter_for(f"distributed=={release}", default_cache(), MAKING_S)
        self._interpreter = str(interpreter.path)

    def took(self, shape: str, path: Path, recording: Path | None = None) -> Figures:
        """Do the same in a process of that release."""
        words = [
            shape,
            str(recording or ""),
            self._arguments.size,
            self._arguments.workers,
            str(path),
        ]
        command = [self._interpreter, __file__, "--alone", json.dumps(words)]
        output = subprocess.check_output(command, text=True)
        return Figures(**json.loads(output.splitlines()[-1]))


def compared(
    shape: str, recorder: Release, releases: Sequence[Release], real: Mapping[str, Figures]
) -> dict[str, list[Row]]:
    """Print the ratios of what a release recorded to its replays, and return them."""
    measurements: dict[str, list[Row]] = {"replay": [], "work": []}
    with tempfile.TemporaryDirectory() as place:
        recording = Path(place, "recorded")
        recorded = recorder.took(shape, recording)
        for number, other in enumerate(releases):
            replayed = other.took(shape, Path(place, f"replay-{number}"), recording)
            for title, figures in (("replay", replayed), ("work", real[other.name])):
                row = ratios(figures, recorded)
                measurements[title].append(row)
                print(f"{shape:15} {recorder.name:10} {other.name:10} {title:7} "
                      f"{row[0]:11.3f} {row[1]:9.3f} {row[2]:6.3f}", flush=True)  # fmt: skip
    return measurements


def measured(releases: Sequence[Release], shapes: Sequence[str]) -> dict[str, list[Row]]:
    """Return the ratios of all pairs of releases."""
    measurements: dict[str, list[Row]] = {"replay": [], "work": []}
    for shape in shapes:
        with tempfile.TemporaryDirectory() as place:
            real = {
                release.name: release.took(shape, Path(place, release.name)) for release in releases
            }
        for recorder in releases:
            for title, rows in compared(shape, recorder, releases, real).items():
                measurements[title] += rows
    return measurements


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", nargs="+", default=list(RELEASES))
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(WORK))
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--alone", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(asdict(in_this_release(*arguments.alone))))
        return 0
    print(f"{'workload':15} {'recorded':10} {'then':10} {'what':7} "
          f"{'transitions':>11} {'makespan':>9} {'bytes':>6}")  # fmt: skip
    measurements = measured(
        [Release(version, arguments) for version in arguments.releases], arguments.shapes
    )
    names = ("transitions", "makespan", "bytes")
    for title, rows in measurements.items():
        for name, most, column in zip(
            names, (TRANSITIONS, MAKESPAN, BYTES), zip(*rows, strict=True), strict=True
        ):
            worst = max(abs(ratio - 1) for ratio in column)
            print(closing_line(f"{title}: {name}, worst departure", worst, most))
    return 0


if __name__ == "__main__":
    sys.exit(main())
