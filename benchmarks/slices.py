"""Measure how far the CPU time of identical code scatters on virtual clusters, and what lessens it.

    PYTHONHASHSEED=0 python benchmarks/slices.py [--rounds 14] [--tasks 2000] [--planted 0.02]
    PYTHONHASHSEED=0 python benchmarks/slices.py --pairs 10 [--pinned]

Two virtual clusters with the same seed run the same tasks in turns. Each round begins without
garbage and is cut into slices of ten tasks, which are the same in every round. Between slices the
scheduler does a fixed piece of other work, the yardstick: what the machine's other load does to CPU
time (shared caches, a shared core) it does to both.

Printed are the standard deviations, as a fraction of the mean, of a round's CPU time, of that in
yardsticks, of the ratio of two rounds in turns, and of the sums of each slice's median and least
over 14 rounds, and of the ratios of these of rounds in turns. With `--planted`, tasks take that
much more CPU time on the second cluster, and the ratios are to be told from those without it.

With `--pairs`, so many pairs of new clusters run 14 rounds each. How far their ratios scatter,
beside the error that the rounds of a pair show, is what two processes differ by that run the same
code. With `--pinned`, all processes share one processor.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from statistics import correlation, mean, median, stdev
from typing import Any, NamedTuple

from distributed import Client, wait
from overhead import inc

from pytest_schedprof.agent import facts
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.control.control import Control

WORKERS = 16
TOGETHER = 14
ASKED = 0.01

Round = Sequence[tuple[float, float]]
"""CPU time at which each slice ended, and at which the next one began."""


def cut_in_slices(dask_scheduler: Any = None) -> None:
    """Note the CPU time at each tenth task, on either side of the yardstick."""
    from time import thread_time

    from distributed.diagnostics.plugin import SchedulerPlugin

    class Slices(SchedulerPlugin):
        name = "slices"

        def begin(self, planted_s: float) -> None:
            self.done, self.at, self.planted_s = 0, 0, planted_s
            self.cuts = [(0.0, thread_time())]

        def transition(self, key: Any, start: str, finish: str, *more: Any, **other: Any) -> None:
            if finish == "memory":
                self.done += 1
                burn(self.planted_s)
                if self.done % 10 == 0:
                    before = thread_time()
                    self.yardstick()
                    self.cuts.append((before, thread_time()))

        def yardstick(self) -> int:
            """Follow links between objects that the caches do not hold all at once."""
            item, work = items[self.at], 0
            for _ in range(600):
                work += item["number"] + len(item["set"])
                item = item["next"]
            self.at = (self.at + 4421) % len(items)
            return work

    items: list[dict[str, Any]] = [{"number": number, "set": {number}} for number in range(20_000)]
    for number, item in enumerate(items):
        item["next"] = items[number * 7919 % len(items)]
    dask_scheduler.add_plugin(Slices())


def burn(seconds: float) -> None:
    """Take CPU time, at least so much if any."""
    from time import thread_time

    until = thread_time() + seconds if seconds else 0.0
    while until and thread_time() < until:
        pass


def begin(planted_s: float, dask_scheduler: Any = None) -> None:
    dask_scheduler.plugins["slices"].begin(planted_s)


def end(dask_scheduler: Any = None) -> Round:
    cuts: Round = dask_scheduler.plugins["slices"].cuts
    return cuts


class Side(NamedTuple):
    """One of the two clusters."""

    cluster: VirtualCluster
    control: Control
    client: Client

    def run(self, tasks: int, planted_s: float = 0.0) -> Round:
        self.cluster.begin_round()
        self.control.call(facts.collect_garbage)
        self.control.call(begin, planted_s)
        with self.client.as_current():
            wait(self.client.map(inc, range(tasks), pure=False))
        cuts: Round = self.control.call(end)
        clean(self.control)
        return cuts


def opened_side(opened: ExitStack) -> Side:
    options = {"duration": "10ms", "seed": "1"}
    cluster = VirtualCluster(WORKERS, timeout_s=60, options=options)
    opened.callback(cluster.close)
    control = opened.enter_context(cluster.open_line(60))
    client = opened.enter_context(Client(cluster.address, set_as_default=False))
    control.call(cut_in_slices)
    return Side(cluster, control, client)


def slices(cuts: Round) -> list[float]:
    """Return the CPU time of each slice, without the yardsticks."""
    return [after[0] - before[1] for before, after in pairwise(cuts)]


def yardsticks(cuts: Round) -> float:
    return sum(after - before for before, after in cuts[1:])


def of_slices(rounds: Sequence[Round], pick: Callable[[Sequence[float]], float]) -> float:
    """Return the sum over the slices of what is picked of each one's times in the rounds."""
    return sum(pick(values) for values in zip(*map(slices, rounds), strict=True))


def parted(rounds: Sequence[Round]) -> list[Sequence[Round]]:
    """Return the rounds, so many of them together."""
    last = len(rounds) - TOGETHER
    return [rounds[first : first + TOGETHER] for first in range(0, last + 1, TOGETHER)]


def measure(opened: ExitStack, arguments: argparse.Namespace) -> list[list[Round]]:
    """Run the rounds in turns on two new clusters."""
    sides = [opened_side(opened) for _ in range(2)]
    warm = [side.run(arguments.tasks) for side in [*sides, *sides]][-1]
    planted = (0.0, arguments.planted * sum(slices(warm)) / arguments.tasks)
    measured: list[list[Round]] = [[], []]
    for number in range(arguments.rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            measured[which].append(sides[which].run(arguments.tasks, planted[which]))
    return measured


def tell_pairs(arguments: argparse.Namespace) -> None:
    """Compare pairs of clusters, each by the ratios of its rounds and by the least of slices."""
    means, errors, leasts = [], [], []
    for _ in range(arguments.pairs):
        with ExitStack() as opened:
            one_side, other_side = measure(opened, arguments)
        ratios = [
            sum(slices(two)) / sum(slices(one))
            for one, two in zip(one_side, other_side, strict=True)
        ]
        means.append(mean(ratios))
        errors.append(stdev(ratios) / len(ratios) ** 0.5)
        leasts.append(of_slices(other_side, min) / of_slices(one_side, min))
        print(f"{means[-1]:.3f} +- {errors[-1]:.3f}, by the least of slices {leasts[-1]:.3f}")
    inside = mean(error**2 for error in errors) ** 0.5
    print(
        f"{arguments.pairs} pairs of clusters, {arguments.rounds} rounds of {arguments.tasks} "
        f"tasks: ratios scatter by {scatter(means)} between them, and their errors are "
        f"{inside:.1%}; those of the least of slices scatter by {scatter(leasts)}"
    )


def scatter(values: Sequence[float]) -> str:
    return f"{stdev(values) / mean(values):.1%}"


def tell(sides: Sequence[Sequence[Round]]) -> None:
    def of_rounds(figure: Callable[[Round], float]) -> str:
        ratios = [
            figure(other_side) / figure(one_side)
            for one_side, other_side in zip(*sides, strict=True)
        ]
        rounds = " and ".join(scatter([figure(cuts) for cuts in side]) for side in sides)
        return f"{rounds} between rounds, {scatter(ratios)} between ratios of two in turns"

    every = [cuts for side in sides for cuts in side]
    cpu, others = [sum(slices(cuts)) for cuts in every], [*map(yardsticks, every)]
    print(f"CPU time: {of_rounds(lambda cuts: sum(slices(cuts)))}")
    print(f"in yardsticks: {of_rounds(lambda cuts: sum(slices(cuts)) / yardsticks(cuts))}")
    print(f"correlation of a round's CPU time with its yardsticks: {correlation(cpu, others):.2f}")
    for name, pick in (("median", median), ("least", min)):
        one_side, other_side = ([of_slices(part, pick) for part in parted(side)] for side in sides)
        ratios = [one / other for one, other in zip(one_side, other_side, strict=True)]
        print(
            f"{name} of each slice over {TOGETHER} rounds: {scatter([*one_side, *other_side])} of "
            f"{len(one_side + other_side)} sums, {scatter(ratios)} of their ratios in turns, "
            f"which are {min(ratios):.3f} to {max(ratios):.3f}"
        )
    print(f"asked: {ASKED:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2 * TOGETHER)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--planted", type=float, default=0.0)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--pinned", action="store_true")
    arguments = parser.parse_args()
    if arguments.pinned:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if arguments.pairs:
        arguments.rounds = TOGETHER
        return tell_pairs(arguments)
    with ExitStack() as opened:
        sides = measure(opened, arguments)
    print(f"{arguments.rounds} rounds of {arguments.tasks} tasks on either side")
    tell(sides)


if __name__ == "__main__":
    main()
