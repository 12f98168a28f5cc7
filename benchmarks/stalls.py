"""Measure whether a stall of the event loop is told from a neighbour on the machine.

    python benchmarks/stalls.py [--windows 10] [--tasks 500] [--milliseconds 15]

Two processes take a core each in bursts. Windows in which one call of a handler takes so many
milliseconds of CPU time more are in turns with windows of unchanged code, on one scheduler.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from coverage import neighbours
from regressions import MODULE, Bench

HANDLER = "Scheduler.handle_task_finished"
STALL = (
    "if not vars(type(self)).get('stalled'):\n"
    " type(self).stalled = True\n"
    " import time\n"
    " until = time.thread_time() + {seconds}\n"
    " while time.thread_time() < until: pass"
)


def use_planted(dask_scheduler: object = None) -> None:
    """Let the scheduler's table have the handler that its class has now."""
    handlers = dask_scheduler.stream_handlers  # type: ignore[attr-defined]
    handlers["task-finished"] = dask_scheduler.handle_task_finished  # type: ignore[attr-defined]
    if "stalled" in vars(type(dask_scheduler)):
        delattr(type(dask_scheduler), "stalled")


def longest(bench: Bench, tasks: int, seconds: float) -> tuple[float, float]:
    """Return the handler's longest callback in milliseconds, by CPU time and by the clock."""
    if seconds:
        bench.change(HANDLER, STALL.format(seconds=seconds))
    bench.scheduler.client.run_on_scheduler(use_planted)
    (backend,) = bench.measure("stalls", tasks).backends
    bench.restore()
    bench.scheduler.client.run_on_scheduler(use_planted)
    assert backend.costs
    totals = {cost.function: cost.total for cost in backend.costs.functions}
    costs = totals.get(f"{MODULE}:{HANDLER}", {"stall": 0.0, "stall_wall": 0.0})
    return costs["stall"] * 1e3, costs["stall_wall"] * 1e3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--milliseconds", type=float, default=15)
    arguments = parser.parse_args()
    lags: dict[float, list[tuple[float, float]]] = {0.0: [], arguments.milliseconds / 1e3: []}
    with ExitStack() as opened:
        bench = Bench(opened)
        bench.measure("stalls", arguments.tasks)
        opened.enter_context(neighbours(2))
        for _ in range(arguments.windows):
            for seconds, values in lags.items():
                values.append(longest(bench, arguments.tasks, seconds))
    for seconds, values in lags.items():
        cpu, wall = zip(*values, strict=True)
        print(
            f"{seconds * 1e3:.0f} ms planted: {min(cpu):.2f} to {max(cpu):.2f} ms by CPU time, "
            f"{min(wall):.1f} to {max(wall):.1f} by the clock"
        )
    without, planted = lags.values()
    is_told = max(cpu for cpu, _ in without) < min(cpu for cpu, _ in planted)
    print(f"apart by CPU time: {'yes' if is_told else 'no'}, asked: yes")


if __name__ == "__main__":
    main()
