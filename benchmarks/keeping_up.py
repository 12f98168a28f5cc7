"""Measure which rates py-spy keeps up with beside busy processes, and whether that is told before.

    python benchmarks/keeping_up.py [--busy 2] [--turns 5] [--rate 250 --rate 1000]

For each rate, in turns: what `schedprof doctor` measures on a busy scheduler, what is told when a
recording begins, and what the recording tells at its end, after some seconds of tasks on a
simulated cluster. py-spy keeps up if that end tells no delay.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from distributed import Client, wait
from overhead import inc

from pytest_schedprof.backends import pyspy
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.control.control import Control

WORKERS = 50
WINDOW_S = 4.0
LONGEST_S = 600
BUSY = f"import time\nend = time.time() + {LONGEST_S}\nwhile time.time() < end: pass"


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run so many processes that never wait."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def work(client: Client, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wait(client.map(inc, range(2000), pure=False))


def warned(control: Control, client: Client, rate_hz: float) -> tuple[bool, bool]:
    """Return whether a recording told at its begin, and at its end, that the rate is too high."""
    pyspy._known.clear()
    recording: Any = pyspy.PySpyBackend(rate_hz=rate_hz, options={}).start(control, timeout_s=30)
    before = recording.forewarn(timeout_s=30)
    work(client, WINDOW_S)
    after = recording.stop(timeout_s=30)
    for warning in (*before, *after.warnings):
        print(f"    {warning}")
    return bool(before), any("behind" in warning for warning in after.warnings)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rate", type=float, action="append")
    arguments = parser.parse_args()
    rates = arguments.rate or [250.0, 1000.0]
    by_rate: dict[float, list[tuple[bool, bool]]] = {rate: [] for rate in rates}
    with ExitStack() as opened:
        opened.enter_context(busy_processes(arguments.busy))
        cluster = SimulatedCluster(WORKERS, timeout_s=60)
        opened.callback(cluster.close)
        control = opened.enter_context(Control(cluster.address, timeout_s=60))
        client = opened.enter_context(Client(cluster.address))
        work(client, 1)
        for _ in range(arguments.turns):
            doctor = pyspy.PySpyBackend(rate_hz=100, options={}).kept_rate(control, timeout_s=30)
            print(f"doctor: {doctor:.0f} Hz, at a load of {os.getloadavg()[0]:.1f}")
            for rate in rates:
                print(f"  {rate:g} Hz")
                by_rate[rate].append(warned(control, client, rate))
    for rate, outcomes in by_rate.items():
        print(
            f"{rate:g} Hz beside {arguments.busy} busy processes: kept in "
            f"{sum(not late for _, late in outcomes)} of {len(outcomes)} windows; told before in "
            f"{sum(early and late for early, late in outcomes)} of the others, and in "
            f"{sum(early and not late for early, late in outcomes)} of those that were kept"
        )


if __name__ == "__main__":
    main()
