"""Show that what happens in virtual time is the same in each run, byte for byte.

    python benchmarks/same_everywhere.py [--runs 10] [--load 8] [--python PATH ...]

Runs a test on a cluster `virtual` so often alone, then beside so many busy processes, then twice by
pytest-xdist, and compares the hashes of the logs. Each PATH is another interpreter in which this
project and pytest-xdist are installed. Interpreters may have other orders of sets: each is compared
with itself, and the program says which of them agree.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support import busy_machine

TEST = """
import random

import pytest
from distributed import as_completed, wait


def inc(x):
    return x + 1


@pytest.mark.schedprof(
    workers=20,
    cluster_options={
        "duration": "exponential(20ms)",
        "nbytes": "uniform(1kB, 1MB)",
        "latency": "uniform(100us, 2ms)",
        "faults": "0.002",
    },
)
@pytest.mark.parametrize("number", range(2))
def test_it(schedprof_scheduler, number):
    client = schedprof_scheduler.client
    futures = client.map(inc, range(300), pure=False)
    for done, future in enumerate(as_completed(futures)):
        if done % 100 == 50:
            extra = client.map(inc, futures[:20], pure=False)
    wait(client.submit(sum, [*futures, *extra]))
"""


def hashes(python: str, directory: Path, *arguments: str) -> tuple[str, ...]:
    """Run the tests once, and return the hashes of what happened in each of them."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    options = [
        "--schedprof=decisions",
        "--schedprof-cluster=virtual",
        f"--schedprof-dir={directory}",
    ]
    before = set(directory.glob("*"))
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*command, *options, "test_same.py"],
        cwd=directory.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    (run,) = {path for path in directory.glob("*") if path.is_dir()} - before
    records = [json.loads(path.read_text()) for path in sorted(run.glob("tests/*/result.json"))]
    return tuple(digest for record in records for digest in record["backends"][0]["hashes"])


def seen_by(python: str, runs: int, processes: int, directory: Path) -> set[tuple[str, ...]]:
    """Return the different results of one interpreter: one, if all runs were the same."""
    alone = [hashes(python, directory) for _ in range(runs)]
    with busy_machine(processes):
        busy = [hashes(python, directory) for _ in range(runs)]
    spread = [hashes(python, directory, "-n", "2") for _ in range(2)]
    for name, hashes in (
        ("alone", alone),
        (f"beside {processes} busy processes", busy),
        ("by xdist", spread),
    ):
        print(f"  {len(hashes)} runs {name}: {len(set(hashes))} result(s)", flush=True)
    return {*alone, *busy, *spread}


def main() -> int:
    """Run it in all interpreters; return 0 if each of them always saw the same."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--load", type=int, default=8)
    parser.add_argument("--python", action="append", default=[])
    options = parser.parse_args()
    by_version: dict[str, set[tuple[str, ...]]] = {}
    for python in [sys.executable, *options.python]:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "test_same.py").write_text(TEST)
            (directory := Path(name) / "runs").mkdir()
            version = subprocess.check_output([python, "-V"], text=True).strip()
            print(version)
            by_version[version] = seen_by(python, options.runs, options.load, directory)
    for version, results in by_version.items():
        print(f"{version}: {len(results)} result(s), {sorted(results)[0][0][:12]}")
    return int(any(len(results) != 1 for results in by_version.values()))


if __name__ == "__main__":
    sys.exit(main())
