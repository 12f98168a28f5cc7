"""Measure whether the bounds of shares hold, by identical windows one after the other.

    python benchmarks/coverage.py [--backend NAME] [--windows N] [--tasks N] [--rate HZ] [--noise]

All windows are on one cluster. With --noise two processes take a core each in bursts of seconds,
as neighbours on a shared machine do.

Each window gives every function a share with a lower and an upper bound. The best guess at
the true share is the mean over the *other* windows. The program prints, for several
values of the drift, how often the guess is outside of a bound (the promise is 5 %), and how
far shares scatter from window to window, as a multiple of the binomial deviation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean, median, stdev

from distributed import Client, wait

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.judge.owners import NOT_SCHEDULER, PLUMBING, owner_of
from pytest_schedprof.judge.shares import Shares, shares_of
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.profile import SampleProfile

DRIFTS = (0.0, 0.03, 0.05, 0.07, 0.1, 0.15)


def inc(x: int) -> int:
    return x + 1


def record(name: str, windows: int, tasks: int, rate_hz: float) -> list[SampleProfile]:
    """Profiles of the same work, repeated in windows of their own."""
    backend = BackendRegistry().make(name, rate_hz=rate_hz, options={})
    cluster = LocalProcesses(4, timeout_s=30)
    profiles = []
    try:
        with Control(cluster.address) as control:
            for number in range(windows + 1):
                recorder = Recorder(control, [backend], 30.0)
                with Client(cluster.address) as client, recorder.round():
                    wait(client.map(inc, range(tasks), pure=False))
                clean(control)
                if recorder.errors:
                    sys.exit("\n".join(map(str, recorder.errors)))
                raw = recorder.rounds[0][0].raw[backend.name]
                profile = backend.read(raw.content, control.name_places)
                assert isinstance(profile, SampleProfile)
                if number:  # the first window warms up
                    profiles.append(profile)
    finally:
        cluster.close()
    return profiles


def common_functions(profiles: list[SampleProfile]) -> list[str]:
    """Functions of the scheduler with a mean share between 2 and 95 %."""
    shares = [shares_of([[profile]], drift=0.0) for profile in profiles]
    names = {name for share in shares for name in share.total.inclusive}
    return [
        name
        for name in sorted(names)
        if owner_of(name) not in PLUMBING | NOT_SCHEDULER
        and 0.02 < mean(share.of_function(name).value for share in shares) < 0.95
    ]


def misses(shares: list[Shares], functions: list[str]) -> tuple[float, float]:
    """Return how often the guess is below the lower bound, and above the upper bound."""
    below = above = cases = 0
    for name in functions:
        estimates = [share.of_function(name) for share in shares]
        for index, estimate in enumerate(estimates):
            guess = mean(e.value for i, e in enumerate(estimates) if i != index)
            below += guess < estimate.low
            above += guess > estimate.high
            cases += 1
    return below / cases, above / cases


def scatter(shares: list[Shares], functions: list[str]) -> list[float]:
    """Standard deviation of each function's share over windows, divided by the binomial one."""
    ratios = []
    for name in functions:
        values = [share.of_function(name).value for share in shares]
        samples = mean(share.total.busy for share in shares)
        binomial = (mean(values) * (1 - mean(values)) / samples) ** 0.5
        ratios.append(stdev(values) / binomial)
    return ratios


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run processes that are busy and idle in turns; they end with this process."""
    program = (
        "import random, time, sys, select\n"
        "random.seed(int(sys.argv[1]))\n"
        "while not select.select([0], [], [], random.uniform(0, 4))[0]:\n"
        "    end = time.monotonic() + random.uniform(0, 4)\n"
        "    while time.monotonic() < end: pass\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(seed)], stdin=subprocess.PIPE)
        for seed in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=3000)
    parser.add_argument("--backend", default="pyspy", choices=("cputime", "pyspy"))
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--noise", action="store_true")
    arguments = parser.parse_args()
    with neighbours(2 if arguments.noise else 0):
        profiles = record(arguments.backend, arguments.windows, arguments.tasks, arguments.rate)
    report(profiles)


def report(profiles: list[SampleProfile]) -> None:
    functions = common_functions(profiles)
    shares = [shares_of([[profile]], drift=0.0) for profile in profiles]
    ratios = sorted(scatter(shares, functions))
    print(f"{len(profiles)} windows, {len(functions)} functions")
    print(f"busy samples per window: median {median(s.total.busy for s in shares)}")
    print(f"scatter / binomial: median {median(ratios):.2f}, highest {ratios[-1]:.2f}")
    samples = mean(share.total.busy for share in shares)
    drift = (max(0.0, mean(ratio**2 for ratio in ratios) - 1) / samples) ** 0.5
    print(f"drift that explains the scatter: {drift:.3f}")
    within = [e.dispersion for s in shares for e in map(s.of_function, functions)]
    print(f"seen within windows (no drift): median {median(within):.2f}, highest {max(within):.2f}")
    print("drift   guess below lower bound   above upper bound")
    for drift in DRIFTS:
        shares = [shares_of([[profile]], drift=drift) for profile in profiles]
        below, above = misses(shares, functions)
        print(f"{drift:5.2f}   {below:23.1%}   {above:17.1%}")


if __name__ == "__main__":
    main()
