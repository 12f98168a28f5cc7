"""Nights for `thresholds.py`: real sessions, one after the other, whose runs are kept.

From one night on the scheduler has a slower method. Each kind of cluster has a directory of runs;
nights that are there already are not run again, so that an interrupted series goes on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_schedprof.model.result import Result
from pytest_schedprof.store.runs import runs_in

HERE = Path(__file__).parent
SLOWER = "for _ in range(2000): pass"
"""Statement that the regression adds to a method which each task calls six times."""

CLUSTERS: dict[str, tuple[str, ...]] = {
    "virtual": ("counts",),  # CPU time needs five times the tasks for as many samples there
    "simulated": ("counts", "rounds", "window"),
    "local": ("counts", "window"),
}
"""Kinds of clusters, with the tests of each night."""

WORKERS = 4
TIMEOUT_S = 1800


def collect(place: Path, nights: int, planted: int) -> None:
    """Run the nights that are missing, those of all clusters in turns.

    Args:
        place: directory with a directory of runs for each kind of cluster.
        nights: how many.
        planted: number of the first night with the regression, from 1 on; 0 for none.
    """
    for number in range(1, nights + 1):
        for cluster, tests in CLUSTERS.items():
            if len(runs_in(place / cluster)) < number:
                _session(place / cluster, cluster, tests, is_planted=number >= planted > 0)
        print(f"night {number} of {nights}", file=sys.stderr, flush=True)


def _session(place: Path, cluster: str, tests: Sequence[str], *, is_planted: bool) -> None:
    options = (
        f"--schedprof-cluster={cluster}",
        f"--schedprof-workers={WORKERS}",
        f"--schedprof-dir={place}",
        "--schedprof-runs=all",
        "--schedprof-timeout=120",
    )
    chosen = [f"{HERE / 'nightly.py'}::test_{test}" for test in tests]
    pytest = ("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-c", os.devnull)
    _run(*pytest, f"--rootdir={HERE}", *options, *chosen, planted=SLOWER if is_planted else "")


def _run(*command: str, planted: str = "") -> None:
    known = {**os.environ, "PYTHONHASHSEED": "0", "PLANTED": planted}
    process = subprocess.run(
        [sys.executable, *command],
        env=known,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    if process.returncode:
        sys.exit(process.stdout)


def nights_of(place: Path, cluster: str) -> Iterator[list[Result]]:
    """Yield the results of each night."""
    for run in runs_in(place / cluster):
        yield [test.result for test in run.tests()]
