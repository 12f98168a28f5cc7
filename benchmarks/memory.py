"""Measure how memray's figures scatter over identical windows, and what it costs the scheduler.

    python benchmarks/memory.py [--windows N] [--tasks N]

All windows are on one cluster and have the same number of tasks, whose futures are held to the
end of the window.
"""

from __future__ import annotations

import argparse
import operator
from collections.abc import Mapping
from statistics import median

from distributed import Client, wait
from figures import closing_line

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.judge.costs import unit_of
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.profile import CostProfile

ASKED = 1.2

MODES: dict[str, Mapping[str, object] | None] = {
    "without memray": None,
    "memray": {},
    "without Python's allocators": {"trace_python_allocators": False},
    "with native": {"native": True},
}


def window(
    control: Control, client: Client, tasks: int, options: Mapping[str, object] | None
) -> dict[str, float]:
    """CPU microseconds per task, and bytes at the peak and at the end."""
    registry = BackendRegistry()
    backends = [] if options is None else [registry.make("memray", rate_hz=100, options=options)]
    recorder = Recorder(control, backends, 30.0)
    with recorder.round():
        futures = client.map(operator.neg, range(tasks), pure=False)
        wait(futures)
    assert recorder.errors == []
    ((segment,),) = recorder.rounds
    profiles = [
        backend.read(segment.raw[backend.name].content, control.name_places) for backend in backends
    ]
    costs = [profile for profile in profiles if isinstance(profile, CostProfile)]
    unit = unit_of(tasks, {"cpu": segment.facts.cpu_seconds / tasks * 1e6}, costs)
    return dict(unit.whole)


def main() -> None:
    """Print one line for each mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=2000)
    arguments = parser.parse_args()
    cluster = LocalProcesses(2, timeout_s=30)
    base = ratio = 0.0
    try:
        with Control(cluster.address) as control, Client(cluster.address) as client:
            window(control, client, arguments.tasks, None)  # do first what is slow only once
            for name, options in MODES.items():
                measurements = [
                    window(control, client, arguments.tasks, options)
                    for _ in range(arguments.windows)
                ]
                cpu = median(measurement["cpu"] for measurement in measurements)
                base = base or cpu
                peaks = [
                    measurement["peak"] for measurement in measurements if "peak" in measurement
                ]
                if name == "memray":
                    ratio = max(peaks) / min(peaks)
                print(f"{name}: {cpu:.0f} us of CPU per task, {cpu / base:.1f} times", end="")
                for metric in ("peak", "leaked"):
                    amounts = sorted(
                        measurement[metric] / 1e6
                        for measurement in measurements
                        if metric in measurement
                    )
                    if amounts:
                        print(f", {metric} {amounts[0]:.2f} to {amounts[-1]:.2f} MB", end="")
                print()
    finally:
        cluster.close()
    print(closing_line("highest peak of identical windows by the lowest", ratio, ASKED))


if __name__ == "__main__":
    main()
