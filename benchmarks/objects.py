"""Measure whether objects and blocks per held task are the same each time, and what is caught.

    python benchmarks/objects.py [--trials 10] [--tasks 1000]

Each trial has a scheduler of its own, with hollow workers, that runs the same independent tasks:
at first, when it has not worked before, then again, then with one object more for each held task,
and with one object that each task leaves behind. At last, the time that the readings took.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from statistics import median

from regressions import Bench, compared

from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.result import Result

HOLDS = ("SchedulerState._add_to_processing", "ts.erred_on = set()")
LEAKS = (
    "SchedulerState._propagate_forgotten",
    "vars(type(self)._propagate_forgotten).setdefault('leak', []).append([])",
)
ROUNDS = 3


def figure(result: Result, metric: str) -> float:
    (backend,) = result.backends
    assert backend.costs
    return backend.costs.whole[metric]


def spread(values: list[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"


def regressed(before: Result, after: Result, metric: str) -> bool:
    """Whether a type is named."""
    found = compared(before, after).of(Outcome.REGRESSED)
    return any(each.metric == metric and each.subject for each in found)


def trial(tasks: int, found: dict[str, list[float]]) -> None:
    with ExitStack() as opened:
        bench = Bench(opened)
        cold = bench.measure("objects", tasks)
        before = bench.measure("objects", tasks, ROUNDS)
        again = bench.measure("objects", tasks, ROUNDS)
        found["false alarms"].append(bool(compared(before, again).of(Outcome.REGRESSED)))
        for name, change, metric in (
            ("held", HOLDS, "objects"),
            ("left", LEAKS, "objects_leaked"),
        ):
            bench.change(*change)
            found[name].append(regressed(before, bench.measure("objects", tasks, ROUNDS), metric))
            bench.restore()
    found["cold"].append(figure(cold, "objects"))
    for metric in ("objects", "blocks", "blocks_leaked"):
        found[metric] += [figure(each, metric) for each in (before, again)]


def seconds(tasks: int) -> tuple[float, float]:
    """Wall time of a round with the readings and of one without."""
    with ExitStack() as opened:
        bench = Bench(opened)
        bench.measure("objects", tasks)
        taken: list[list[float]] = [[], []]
        for _ in range(5):
            for arm in (0, 1):
                begun = time.monotonic()
                bench.measure("objects", tasks) if arm else bench.body(tasks)
                taken[arm].append(time.monotonic() - begun)
    return median(taken[1]), median(taken[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=1000)
    arguments = parser.parse_args()
    names = ("cold", "objects", "blocks", "blocks_leaked", "false alarms", "held", "left")
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(arguments.trials):
        trial(arguments.tasks, found)
    print(f"{arguments.trials} schedulers, {arguments.tasks} tasks, {ROUNDS} rounds on either side")
    print(f"objects per held task: {spread(found['objects'])}; cold {spread(found['cold'])}")
    print(f"blocks {spread(found['blocks'])}, left {spread(found['blocks_leaked'])}")
    print(f"one more object: caught in {sum(found['held']):.0f} of {arguments.trials}, asked: all")
    print(f"one leaked: caught in {sum(found['left']):.0f} of {arguments.trials}, asked: all")
    print(f"unchanged code: {sum(found['false alarms']):.0f} false alarms, asked: none")
    with_readings, without = seconds(arguments.tasks)
    print(f"a round takes {with_readings:.2f} s, without readings {without:.2f} s")


if __name__ == "__main__":
    main()
