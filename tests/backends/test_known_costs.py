"""A cost that is known lies within the bounds that a page shows, whatever backend samples it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from itertools import product
from math import log
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from at_work import inc
from distributed import Client, wait

from pytest_schedprof import profile_scheduler
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.report.tables import busy_time, costs_of

BACKENDS = ("cputime", "pyspy")
"""They do not disturb the scheduler, so they see the same windows."""

TASKS = 100

HOLD, HOLD_NOT = 0.9, 0.5
"""The part of windows in which correct bounds hold, and that from which on bounds are wrong."""

UNJUST, UNNOTICED = 1e-4, 0.01
"""Chances that correct bounds fail the test, and that wrong ones pass it."""

MOST = 60
"""The most windows to decide it by."""

BOUNDS = re.compile(r"([\d.,]+) (us|ms) to ([\d.,]+) (us|ms)")


class Window(NamedTuple):
    """The planted cost, and the bounds that are shown, in microseconds of CPU time per task."""

    cpu: float
    wall: float
    """The planted cost by the clock."""
    low: float
    high: float
    part: float
    """The part of the planted function's samples in those of both."""

    def holds(self, factor: float = 1.0) -> bool:
        return self.low <= factor * self.cpu <= self.high

    @property
    def is_quiet(self) -> bool:
        """Whether the scheduler had a processor most of the time."""
        return self.wall < 1.2 * self.cpu


def plant(seconds: float, dask_scheduler: Any = None) -> None:
    """Let each task cost that CPU time in a function that is known, and half of it in another."""
    import time

    from distributed.diagnostics.plugin import SchedulerPlugin

    class Planted(SchedulerPlugin):
        name, cpu, wall, tasks = "planted", 0.0, 0.0, 0

        def transition(self, key: Any, start: Any, finish: Any, *args: Any, **kwargs: Any) -> None:
            if finish == "memory":
                before = time.thread_time(), time.perf_counter()
                self.burn_planted(before[0] + seconds)
                self.cpu += time.thread_time() - before[0]
                self.wall += time.perf_counter() - before[1]
                self.tasks += 1
                self.burn_beside(time.thread_time() + seconds / 2)

        def burn_planted(self, until: float) -> None:
            while time.thread_time() < until:
                pass

        def burn_beside(self, until: float) -> None:
            while time.thread_time() < until:
                pass

    dask_scheduler.add_plugin(Planted())


def planted_cost(dask_scheduler: Any = None) -> tuple[float, float]:
    """Return what the planted function took for each task since this was last called."""
    planted = dask_scheduler.plugins["planted"]
    micros = 1e6 / planted.tasks
    cost = micros * planted.cpu, micros * planted.wall
    planted.cpu, planted.wall, planted.tasks = 0.0, 0.0, 0
    return cost


def in_micros(number: str, unit: str) -> float:
    return float(number.replace(",", "")) * (1_000 if unit == "ms" else 1)


def observed(client: Client) -> dict[str, Window]:
    """Run one window; return what each backend says of it."""
    with profile_scheduler(BACKENDS, client=client, rate=200) as profile:
        wait(client.map(inc, range(TASKS), pure=False))
    cpu, wall = client.run_on_scheduler(planted_cost)
    seen = {}
    for backend in profile.result.backends:
        assert backend.shares is not None
        functions = backend.shares.functions
        planted, beside = (
            next(row.share for row in functions if name in row.function)
            for name in ("burn_planted", "burn_beside")
        )
        bounds = BOUNDS.fullmatch(costs_of(planted, busy_time(backend))[1])
        assert bounds is not None, planted
        low, high = in_micros(*bounds.group(1, 2)), in_micros(*bounds.group(3, 4))
        part = planted.value / (planted.value + beside.value)
        seen[backend.backend] = Window(cpu, wall, low, high, part)
    return seen


def verdict(held: Iterable[bool]) -> bool | None:
    """Whether bounds that held in these windows hold; None while there are too few to tell.

    Wald's test of one proportion against another.
    """
    evidence = 0.0
    for does_hold in held:
        evidence += log(HOLD_NOT / HOLD if does_hold else (1 - HOLD_NOT) / (1 - HOLD))
        if not log(UNNOTICED) < evidence < log(1 / UNJUST):
            return evidence < 0
    return None


@pytest.mark.slow
def test_a_known_cost_is_within_the_bounds() -> None:
    """Windows are run until it is certain; bounds of another cost must not hold."""
    runs: list[dict[str, Window]] = []
    cluster = SimulatedCluster(4, timeout_s=200, options={"duration": "0s"})
    with closing(cluster), Client(cluster.address) as client:
        client.run_on_scheduler(plant, seconds=1.5e-3)
        wait(client.map(inc, range(TASKS), pure=False))
        client.run_on_scheduler(planted_cost)
        verdicts: dict[str, bool | None] = dict.fromkeys(BACKENDS)
        while None in verdicts.values() and len(runs) < MOST:
            runs.append(observed(client))
            verdicts = {name: verdict(run[name].holds() for run in runs) for name in BACKENDS}
    assert all(verdicts.values()), (verdicts, runs)
    # By the clock, bounds are wide where the scheduler waited for a processor: they hold for more.
    narrow = {"cputime": runs, "pyspy": [run for run in runs if run["pyspy"].is_quiet]}
    for name, factor in product(BACKENDS, (0.25, 2.0)):
        wrong = verdict(run[name].holds(factor) for run in narrow[name])
        assert wrong is not True, (name, factor, runs)
        assert fmean(run[name].part for run in runs) == pytest.approx(2 / 3, abs=0.2), (name, runs)
