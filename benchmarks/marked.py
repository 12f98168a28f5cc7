"""Measure what a marker costs a test of `gen_cluster`, for each backend, and what it consists of.

    python benchmarks/marked.py [--repeats N] [--tasks N] [--cpu] [--backend NAME ...]

One session of pytest runs the same test again and again, unmarked and marked for each backend in
turns. Its quickest quarter tells most, because other work on the machine only ever adds time. The
parts are the times that functions of the package took; what is left of the price is the work of
the profiler during the test's body, and the smaller steps between the parts. The pages are written
when the session ends, so their part is a mean. `--cpu` measures CPU time of the test's process
instead, which depends less on other work and leaves out that of py-spy. This file is also the
session's plugin.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
from figures import closing_line, interleaved

from pytest_schedprof.backends.registry import BackendRegistry

ASKED = 1.2
JUDGED = ("cputime", "counts", "pyspy")
BACKENDS = (*JUDGED, "cprofile", "viztracer", "memray")
RESULTS = "SCHEDPROF_MARKED"
"""Environment variable with the path of the file for the measured times."""

CLASSES = [
    f"backends.{name}:{type(BackendRegistry().make(name, rate_hz=100, options={})).__name__}"
    for name in BACKENDS
]

PARTS = {
    "plan": ["plugin.hooks:_plan_of"],
    "facts": ["plugin.running:_profiled"],
    "settle": ["measuring.recorder:Recorder._settle"],
    "start": [f"{name}.start" for name in CLASSES],
    "stop": ["backends.remote:RemoteRecording.stop"],
    "read": [f"{name}.read" for name in CLASSES],
    "shares": ["measuring.assessment:_Recorded._measurements"],
    "write": ["measuring.assessment:_Recorded._keep", "measuring.profiling:keep_record"],
    "pack": ["plugin.running:pack"],
    "page": ["report.pages:page_of_test"],
}
"""Functions whose time is told, by the name of the part. None of them calls another."""

TEST = """
import asyncio
import pytest
from distributed import wait
from distributed.utils_test import gen_cluster, inc

@pytest.mark.parametrize("number", range(REPEATS))
@gen_cluster(client=True)
async def test_it(c, s, a, b, number):
    await wait(c.map(inc, range(TASKS)))
"""


class Times:
    """The plugin: marks tests in turns, and measures each of them and its parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arms, is_cpu = json.loads(path.read_text())
        self.clock = time.process_time if is_cpu else time.perf_counter
        self.parts: defaultdict[str, float] = defaultdict(float)
        self.tests: list[tuple[str, float, dict[str, float]]] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = interleaved(self.arms, len(items))
        for item, arm in zip(items, order, strict=False):
            item.user_properties.append(("arm", arm))
            if arm != "unmarked":
                item.add_marker(pytest.mark.schedprof(backend=arm))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.parts.clear()
        start = self.clock()
        done = yield
        seconds = self.clock() - start
        self.tests.append((str(dict(item.user_properties)["arm"]), seconds, dict(self.parts)))
        return done

    def pytest_unconfigure(self) -> None:
        self.path.write_text(json.dumps([self.tests, self.parts["page"]]))

    def patch(self) -> None:
        """Time each function of `PARTS`."""
        for part, places in PARTS.items():
            for place in places:
                module, _, name = place.partition(":")
                owner = import_module(f"pytest_schedprof.{module}")
                *path, last = name.split(".")
                for name in path:
                    owner = getattr(owner, name)
                setattr(owner, last, self._timed(part, getattr(owner, last)))

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:
            start = self.clock()
            try:
                return function(*args, **keywords)
            finally:
                self.parts[part] += self.clock() - start

        return timed


def pytest_configure(config: pytest.Config) -> None:
    times = Times(Path(os.environ[RESULTS]))
    times.patch()
    config.pluginmanager.register(times, "schedprof-times")


def measure(
    arms: list[str], repeats: int, tasks: int, is_cpu: bool, directory: Path
) -> tuple[Any, float]:
    """Run the session; return each test's arm, seconds and parts, and the seconds of all pages."""
    body = TEST.replace("REPEATS", str(repeats * len(arms))).replace("TASKS", str(tasks))
    (directory / "test_it.py").write_text(body)
    (directory / "pytest.ini").write_text("[pytest]\n")
    results = directory / "times.json"
    results.write_text(json.dumps([arms, is_cpu]))
    plugins = ["-p", "marked", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parent),
        RESULTS: str(results),
    }
    run = [sys.executable, "-m", "pytest", "-q", *plugins, "test_it.py"]
    done = subprocess.run(run, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stdout[-3000:])
    tests, pages = json.loads(results.read_text())
    return tests, pages


def quickest(values: list[float]) -> float:
    """Return the mean of the quickest quarter."""
    return mean(sorted(values)[: max(1, len(values) // 4)])


def report(arms: list[str], tests: list[Any], pages: float) -> None:
    """Print each arm's times, its ratio to the unmarked test, and its parts."""
    seconds = {arm: [taken for name, taken, _ in tests if name == arm][1:] for arm in arms}
    marked = sum(name != "unmarked" for name, _, _ in tests)
    bare = seconds["unmarked"]
    print("milliseconds of a test: its quickest quarter, its median; the parts are medians")
    print(f"{'':10s} quick median  ratio " + " ".join(f"{part:>6s}" for part in PARTS))
    for arm in arms:
        parts = [seconds for name, _, seconds in tests if name == arm][1:]
        shown = {
            part: median(part_seconds.get(part, 0.0) for part_seconds in parts) for part in PARTS
        }
        shown["page"] = pages / marked if arm != "unmarked" else 0.0
        times = [quickest(seconds[arm]), median(seconds[arm])]
        print(
            f"{arm:10s} "
            + " ".join(f"{value * 1e3:5.0f} " for value in times)
            + f"{times[0] / quickest(bare):6.2f} "
            + " ".join(f"{value * 1e3:6.1f}" for value in shown.values())
        )
    print(f"pages: {pages * 1e3 / marked:.0f} ms a marked test, on top of the ratio")
    for arm in JUDGED:
        if arm in arms:
            ratio = quickest(seconds[arm]) / quickest(bare)
            print(closing_line(f"{arm}, marked to unmarked", ratio, ASKED))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    arguments = parser.parse_args()
    arms = ["unmarked", *(arguments.backend or BACKENDS)]
    with tempfile.TemporaryDirectory() as name:
        report(arms, *measure(arms, arguments.repeats, arguments.tasks, arguments.cpu, Path(name)))


if __name__ == "__main__":
    main()
