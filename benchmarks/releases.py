"""Run one suite of distributed's own tests under several releases: what got dearer, and where.

    python benchmarks/releases.py DIRECTORY RELEASE [RELEASE ...] [--file NAME ...]

DIRECTORY is a checkout of distributed, of the oldest release: its tests run unchanged under each,
in virtual time under `counts`. A release is fetched with pip, dask's beside it; all else is of this
environment. Tests that some release fails are left out. All figures are bytecodes, the same number
in each run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

from own_clusters import FILES, Trial

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.judge.costs import is_line
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import Result

MOST = 10
"""Functions that are shown of each release."""

LEAST = 0.005
"""Part of all bytecodes from which an owner is shown."""


class Release:
    """What the tests cost under one release."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[Function, int]] = {}
        """Bytecodes of each function in each test that passed."""
        self.owners: dict[Function, str] = {}
        self.code: dict[Function, str] = {}

    def add(self, result: Result) -> None:
        costs = result.backends[0].costs if result.backends else None
        if costs is None or result.outcome != "passed":
            return
        counts = self.tests[result.test_id] = {}
        for row in (*costs.functions, *costs.folded):
            if not is_line(row.function):
                counts[row.function] = int(row.total.get("bytecodes", 0))
                self.code[row.function], self.owners[row.function] = row.code, row.owner

    def by_owner(self, tests: set[str]) -> Counter[str]:
        """Return the bytecodes of each part of dask; imports are once in a session."""
        sums: Counter[str] = Counter()
        for test in tests:
            for function, count in self.tests[test].items():
                sums[self.owners[function]] += count
        del sums["import"]
        return sums


def place_release(release: str, checkout: Path, place: Path) -> Path:
    """Return a directory with dask and distributed of a release, and a checkout's tests."""
    packages = [f"dask=={release}", f"distributed=={release}"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place)]
    subprocess.run([*pip, *packages], check=True)
    shutil.rmtree(place / "distributed" / "tests", ignore_errors=True)
    shutil.copytree(checkout / "distributed" / "tests", place / "distributed" / "tests")
    for name in ("conftest.py", "pyproject.toml", "distributed/pytest_resourceleaks.py"):
        shutil.copy(checkout / name, place / name)
    return place


def differences(
    before: Release, after: Release, tests: set[str]
) -> list[tuple[int, int, Function]]:
    """Return how many bytecodes each function differs by, and in how many tests, most first."""
    sums: Counter[Function] = Counter()
    numbers: Counter[Function] = Counter()
    for test in tests:
        one, other = before.tests[test], after.tests[test]
        for function in one.keys() | other.keys():
            if difference := other.get(function, 0) - one.get(function, 0):
                sums[function] += difference
                numbers[function] += 1
    rows = [(amount, numbers[function], function) for function, amount in sums.items()]
    return sorted(rows, key=lambda row: -abs(row[0]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--file", nargs="+", default=FILES.split())
    arguments = parser.parse_args()
    runs = {release: Release() for release in arguments.releases}
    for release, run in runs.items():
        with tempfile.TemporaryDirectory() as place:
            directory = place_release(release, arguments.checkout, Path(place, "packages"))
            trial = Trial(directory, Path(place))
            for file in arguments.file:
                try:
                    _, results = trial.virtually(file, f"distributed/tests/test_{file}.py", 0)
                except ArtifactError:  # the release lacks what the file imports
                    print(f"{release}: no test of {file} runs")
                    continue
                for result in results:
                    run.add(result)
        print(f"{release}: {len(run.tests)} tests pass in virtual time", flush=True)
    tests = set.intersection(*({*run.tests} for run in runs.values()))
    sums = [run.by_owner(tests) for run in runs.values()]
    print(f"\nmillions of bytecodes in the {len(tests)} tests that pass under all:\n")
    print("| |", " | ".join(runs), "|")
    total = sum(sums, Counter[str]())
    for owner, amount in total.most_common():
        if amount >= LEAST * total.total():
            print(f"| {owner} |", " | ".join(f"{counts[owner] / 1e6:.1f}" for counts in sums), "|")
    print("| all |", " | ".join(f"{counts.total() / 1e6:.1f}" for counts in sums), "|")
    for one, other in pairwise(runs):
        print(f"\n{one} -> {other}:")
        for amount, number, name in differences(runs[one], runs[other], tests)[:MOST]:
            is_changed = runs[one].code.get(name) != runs[other].code.get(name)
            code = "its code differs" if is_changed else "its code is as before"
            print(f"  {amount:+,} bytecodes in {number} tests, {code}: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
