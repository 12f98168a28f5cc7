"""Measure what a profiled window costs: entering until sampling is proven, leaving with the file.

    python benchmarks/window.py [--repeats N] [--other PYTHON]

The scheduler is idle and has a process of its own. PYTHON is an interpreter with dask-pyspy
0.4.0, which is then measured in turns with this package. It cannot be this interpreter, because
dask-pyspy needs py-spy below 0.4:

    python -m venv other && other/bin/pip install dask-pyspy==0.4.0
    python benchmarks/window.py --other other/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from figures import closing_line, interleaved, interval

from pytest_schedprof.backends.pyspy import PySpyBackend
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.measuring.recorder import Recorder

ASKED_S = 0.2
PAUSE_S = 0.2
RATE_HZ = 100

Window = tuple[float, float]
"""Seconds to enter and to leave."""

OTHER_PROGRAM = Path(__file__).resolve().with_name("window_of_dask_pyspy.py")


@contextmanager
def ours() -> Iterator[Callable[[], Window]]:
    """Yield a function that measures one window of this package."""
    backend = PySpyBackend(rate_hz=RATE_HZ, options={})
    cluster = LocalProcesses(0, timeout_s=30)
    try:
        with Control(cluster.address) as control:
            yield lambda: one_window(Recorder(control, [backend], 30.0))
    finally:
        cluster.close()


def one_window(recorder: Recorder) -> Window:
    start = time.perf_counter()
    with recorder.round():
        entered = time.perf_counter()
        time.sleep(PAUSE_S)
        leaving = time.perf_counter()
    left = time.perf_counter()
    if recorder.errors:
        sys.exit("\n".join(map(str, recorder.errors)))
    return entered - start, left - leaving


@contextmanager
def other(python: str) -> Iterator[Callable[[], Window]]:
    """Yield a function that measures one window of dask-pyspy, in a process of its own."""
    process = subprocess.Popen(
        [os.path.abspath(python), OTHER_PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def measure() -> Window:
        print(PAUSE_S, file=stdin, flush=True)
        answer = stdout.readline() or sys.exit(f"{python} could not measure dask-pyspy")
        entering, leaving = json.loads(answer)
        return entering, leaving

    try:
        yield measure
    finally:
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--other", metavar="PYTHON")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        arms = {"schedprof": stack.enter_context(ours())}
        if arguments.other:
            arms["dask-pyspy"] = stack.enter_context(other(arguments.other))
        windows: dict[str, list[Window]] = {name: [] for name in arms}
        for name in [*arms, *interleaved(list(arms), arguments.repeats)]:
            windows[name].append(arms[name]())
    report({name: values[1:] for name, values in windows.items()})


def report(windows: dict[str, list[Window]]) -> None:
    """Print medians of each arm; the first window of each is left out."""
    print("medians of seconds [95 % interval of the total]")
    for name, values in windows.items():
        entering, leaving = (median(value[index] for value in values) for index in (0, 1))
        totals = [sum(value) for value in values]
        low, high = interval(totals)
        print(
            f"{name:12s} {len(values)} windows: enter {entering:.3f}, leave {leaving:.3f}, "
            f"total {median(totals):.3f} [{low:.3f}, {high:.3f}], best {min(totals):.3f}"
        )
    total = median(sum(value) for value in windows["schedprof"])
    print(closing_line("entering and leaving a window", total, ASKED_S, " s"))


if __name__ == "__main__":
    main()
