"""Compare sessions of tests in their own process whose interpreters have different hash seeds.

    python benchmarks/hash_seeds.py [--sessions 20]           # unchanged code: none may fail
    python benchmarks/hash_seeds.py --planted [--sessions 3]  # changed code: random seeds and fixed

Each session runs three tests in the style of distributed's own suite (`gen_cluster`: a flood of
`submit`, a graph of many tasks, stealing) under `counts`, in a process of its own, and compares
with what the first session saved. A session takes about 10 s on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.baselines import load

TIMEOUT_S = 900
BASELINE = "first"

TESTS = """
import pytest
from dask import delayed
from distributed import wait
from distributed.utils_test import gen_cluster, inc, slowinc

pytestmark = pytest.mark.schedprof(backend="counts")

@gen_cluster(client=True, timeout=120)
async def test_flood(c, s, a, b):
    await c.gather([c.submit(inc, i, pure=False) for i in range(40)])

@gen_cluster(client=True, timeout=120)
async def test_graph(c, s, a, b):
    level = [delayed(inc)(i) for i in range(16)]
    while len(level) > 1:
        level = [delayed(sum)(level[i:i + 2]) for i in range(0, len(level), 2)]
    await c.compute(level[0])

@gen_cluster(client=True, nthreads=[("127.0.0.1", 1)] * 4, timeout=120)
async def test_stealing(c, s, *workers):
    first = workers[0].address
    await wait(c.map(inc, range(24), workers=[first], allow_other_workers=True, pure=False))
    there = {"workers": [first], "allow_other_workers": True}
    await c.gather(c.map(slowinc, range(8), delay=0.005, **there))
"""

CONFTEST = """
import sys
sys.path.append({tests!r})
from injection import plant
import distributed.scheduler
plant("distributed.scheduler", {qualname!r}, {statement!r})
"""

EMPTY = '{"op": "free-keys", "keys": [], "stimulus_id": "planted"}'

PLANTED = {
    "linear scan": (
        "SchedulerState.decide_worker_non_rootish",
        "sum(1 for each in self.tasks.values() if each is ts)",
    ),
    "sorted": ("SchedulerState._transition", "sorted(each for each in ALL_TASK_STATES)"),
    "message": (
        "Scheduler.send_all",
        f"worker_msgs = {{key: [*each, {EMPTY}] for key, each in worker_msgs.items()}}",
    ),
}
"""Changes by name: the method, and the statement that is inserted at its start."""


class Project:
    """A directory with the tests; its sessions save to it and compare with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider -p no:asyncio\n")
        (path / "test_it.py").write_text(TESTS)

    def plant(self, name: str) -> None:
        """Plant a change in the sessions that follow."""
        qualname, statement = PLANTED[name]
        tests = str(Path(__file__).parents[1] / "tests")
        text = CONFTEST.format(tests=tests, qualname=qualname, statement=statement)
        (self.path / "conftest.py").write_text(text)

    def uproot(self) -> None:
        """Plant nothing any more."""
        (self.path / "conftest.py").unlink(missing_ok=True)

    def session(self, option: str, seed: str) -> tuple[Result, ...]:
        """Run a session and return its results."""
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--schedprof-{option}={BASELINE}{seed}"],
            cwd=self.path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
        return load(".schedprof", str(self.path)).results if option == "compare" else ()


def regressed(results: Sequence[Result]) -> Iterator[str]:
    """Yield each figure that regressed, with its test."""
    for result in results:
        for trouble in result.troubles:
            print("trouble:", trouble)
        for comparison in result.comparisons:
            for change in comparison.of(Outcome.REGRESSED):
                yield (
                    f"{result.test_id.partition('::')[2]}: {change.metric} {change.subject} "
                    f"{change.before:.4g} to {change.after:.4g} per task\n"
                )


def unchanged(project: Project, sessions: int) -> None:
    """Compare sessions of unchanged code, each with a random seed."""
    project.session("save", "random")
    failed = 0
    for _ in range(sessions):
        regressions = list(regressed(project.session("compare", "random")))
        failed += bool(regressions)
        print("false alarm:" if regressions else "same", *regressions, flush=True)
    print(f"unchanged code, random seeds: {failed} of {sessions} sessions failed, required: none")


def planted(project: Project, sessions: int) -> None:
    """Compare changed code with the original, with random seeds and with a fixed one."""
    for seed in ("random", "0"):
        project.uproot()
        project.session("save", seed)
        for name, (qualname, _) in PLANTED.items():
            project.plant(name)
            runs = [list(regressed(project.session("compare", seed))) for _ in range(sessions)]
            caught = sum(
                any(qualname in function for function in regressions) for regressions in runs
            )
            print(f"{name}, seed {seed}: caught by name in {caught} of {sessions}", flush=True)
    print("required: with random seeds at least as many as with a fixed one")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int)
    parser.add_argument("--planted", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        project = Project(Path(directory))
        if arguments.planted:
            planted(project, arguments.sessions or 3)
        else:
            unchanged(project, arguments.sessions or 20)


if __name__ == "__main__":
    main()
