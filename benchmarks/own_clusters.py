"""Run distributed's own tests, unchanged, in virtual time: how many pass there and count the same.

    python benchmarks/own_clusters.py DIRECTORY [--file NAME ...] [--runs NUMBER] [--apart]

DIRECTORY has the package `distributed` with its tests, and their conftest.py and pyproject.toml: a
checkout, or a copy of an installed release with the tests of it. Each file of tests runs in virtual
time under `counts`, by default twice: in two hash seeds in turns, the last time beside two busy
processes. Those that ran there run once more as ordinary tests. Fixtures that start clusters, and
tests that start processes, are not in virtual time, and not among them; with `--apart` all sessions
but the first leave them out, so that other tests run before each one.

- passed: in virtual time, of those that pass as ordinary tests.
- the same: tests whose functions all have the same count in all sessions.
- seconds: those of the tests that pass both ways.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from pytest_schedprof.model.result import OWN_VIRTUAL, Result
from pytest_schedprof.store.runs import find_run

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support import busy_machine

FILES = """
    active_memory_manager actor cancelled_state client events failed_workers scheduler spans steal
    worker worker_state_machine
"""
"""Names of the files of tests, without `test_`."""

PYTEST = "-p no:asyncio -p no:randomly -p no:cacheprovider -o addopts= -o timeout_method=signal -q"
TIMEOUT_S = 60
SEEDS = (7, 0)
"""Of hashes."""


class Ending(NamedTuple):
    """How a test ended."""

    outcome: str
    seconds: float


class Trial:
    """The sessions of one file of tests."""

    def __init__(self, directory: Path, place: Path) -> None:
        self.directory, self.place = directory, place

    def run(self, name: str, tests: Sequence[str], seed: int, *options: str) -> dict[str, Ending]:
        """Run a session of pytest and return how its tests ended."""
        report, chosen = self.place / f"{name}.xml", self.place / f"{name}.txt"
        chosen.write_text("\n".join(tests))
        words = [*PYTEST.split(), f"--timeout={TIMEOUT_S}", f"--junitxml={report}", *options]
        with open(self.place / f"{name}.log", "w") as log:
            subprocess.run(
                [sys.executable, "-m", "pytest", *words, f"@{chosen}"],
                cwd=self.directory,
                env={
                    **os.environ,
                    "PYTHONHASHSEED": str(seed),
                    "PYTHONPATH": os.pathsep.join([str(self.directory), *sys.path[1:]]),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return dict(self._endings(report))

    def _endings(self, report: Path) -> Iterator[tuple[str, Ending]]:
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            broken = kinds & {"failure", "error"}
            outcome = "failed" if broken else "skipped" if "skipped" in kinds else "passed"
            name = f"{case.get('classname')}::{case.get('name')}"
            yield name, Ending(outcome, float(case.get("time") or 0.0))

    def virtually(
        self, name: str, tests: Sequence[str], seed: int
    ) -> tuple[dict[str, Ending], list[Result]]:
        kept = self.place / name
        options = ("--schedprof=counts", "--schedprof-cluster=virtual", f"--schedprof-dir={kept}")
        endings = self.run(name, tests, seed, *options)
        results = [test.result for test in find_run(kept).tests()]
        return endings, [
            result for result in results if result.cluster and result.cluster.kind == OWN_VIRTUAL
        ]


def name_of(result: Result) -> str:
    """Return the name of a test as a report of JUnit has it."""
    path, *parts = result.test_id.split("::")
    return "::".join(
        [".".join([path.removesuffix(".py").replace("/", "."), *parts[:-1]]), parts[-1]]
    )


Counts = dict[str, dict[str, float]]


def counted(result: Result) -> Counts:
    costs = result.backends[0].costs if result.backends else None
    return (
        {cost.function: cost.total for cost in (*costs.functions, *costs.folded)} if costs else {}
    )


def parting(counts: Counts, others: Sequence[Counts]) -> str:
    """Return the first functions whose counts are not the same in all sessions."""
    names = {name for figures in (counts, *others) for name in figures}
    differing = [
        name for name in names if any(counts.get(name) != other.get(name) for other in others)
    ]
    return f"{', '.join(sorted(differing)[:3])} ({len(differing)} functions)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--file", nargs="+", default=FILES.split())
    parser.add_argument("--runs", type=int, default=2, help="sessions in virtual time")
    parser.add_argument("--apart", action="store_true", help="leave out those of other processes")
    arguments = parser.parse_args()
    sums = [0, 0, 0, 0, 0.0, 0.0]
    print("file | ordinary passes | passed | always measured | the same | seconds | ordinary")
    for name in arguments.file:
        with tempfile.TemporaryDirectory() as place:
            trial = Trial(arguments.directory.resolve(), Path(place))
            file = f"distributed/tests/test_{name}.py"
            endings, first = trial.virtually("run1", [file], SEEDS[1])
            ran = {result.test_id: counted(result) for result in first}
            others, tests = [], [*ran] if arguments.apart else [file]
            for number in range(2, arguments.runs + 1):
                is_last = number == arguments.runs
                with busy_machine() if is_last else nullcontext():
                    _, results = trial.virtually(f"run{number}", tests, SEEDS[number % 2])
                others.append({result.test_id: counted(result) for result in results})
            ordinary = trial.run("ordinary", [*ran], 0)
            passing = [test for test in map(name_of, first) if ordinary[test].outcome == "passed"]
            both = [test for test in passing if endings[test].outcome == "passed"]
            always = [test for test in ran if all(test in other for other in others)]
            same = [test for test in always if all(ran[test] == other[test] for other in others)]
            for broken in sorted({*passing} - {*both}):
                print(f"  fails: {broken}")
            for test in sorted({*always} - {*same}):
                print(f"  differs: {test}: {parting(ran[test], [other[test] for other in others])}")
            row = [len(passing), len(both), len(always), len(same)]
            times = [sum(side[test].seconds for test in both) for side in (endings, ordinary)]
            sums = [total + part for total, part in zip(sums, [*row, *times], strict=True)]
            print(name, *row, *(f"{seconds:.1f}" for seconds in times), sep=" | ", flush=True)
    print("all", *(f"{total:.5g}" for total in sums), sep=" | ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
