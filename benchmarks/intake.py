"""Measure what the ledger of graph intake costs, and write it for the shipped workloads.

    python benchmarks/intake.py cost [--pairs 12] [--tasks 4000]
    python benchmarks/intake.py ledger [--sizes 500,2000] [--rounds 3]
    python benchmarks/intake.py levels [--pairs 12] [--tasks 4000]

- `cost`: CPU time of the scheduler per task with the backend and without, in turns on one scheduler
  with hollow workers, for tasks in one graph and for tasks in a graph each.
- `ledger`: CPU time per task of each step at the largest size, and its growth over the sizes.
- `levels`: CPU time per task of each step, in client and scheduler, of a high-level graph and of
  the same graph as a low-level one, in turns on one scheduler.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from distributed import Client, wait
from figures import closing_line, interleaved, interval
from overhead import WARM_UP_PAIRS, collect_between_rounds, inc, load

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.intake import IntakeBackend
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.evidence.client import ClientWatch
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.phases import phases_of
from pytest_schedprof.measuring.assessment import assess
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.evidence import ONCE, STEPS
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.workloads import WORKLOADS, Workload

ASKED = 1.10

SHOWN_US = 0.1
"""Microseconds per task from which a step of `levels` is printed."""

Body = Callable[[Client, int], None]


def in_one_graph(client: Client, tasks: int) -> None:
    wait(client.map(inc, range(tasks), pure=False), timeout=120)


def in_a_graph_each(client: Client, tasks: int) -> None:
    wait([client.submit(inc, each, pure=False) for each in range(tasks // 4)], timeout=120)


BODIES: Mapping[str, Body] = {
    "tasks in one graph": in_one_graph,
    "a graph for each task": in_a_graph_each,
}


def backend() -> Backend:
    return IntakeBackend(rate_hz=100, options={})


def cpu_per_task(
    control: Control, client: Client, backends: Sequence[Backend], body: Body, tasks: int
) -> float:
    """Microseconds of the scheduler's CPU per task of one round."""
    control.call(collect_between_rounds)
    recorder = Recorder(control, backends, 30.0)
    with recorder.round():
        body(client, tasks)
    left = control.call(facts.wait_until_idle, 30.0)
    if recorder.troubles or left:
        sys.exit("\n".join(recorder.troubles) or f"the scheduler still knows {left} tasks")
    segment = recorder.rounds[0][0].facts
    return segment.cpu_seconds / segment.tasks * 1e6


def cost(pairs: int, tasks: int) -> None:
    arms: dict[str, list[Backend]] = {"without": [], "with": [backend()]}
    worst = 0.0
    with load() as (control, client):
        for title, body in BODIES.items():
            found: dict[str, list[float]] = {name: [] for name in arms}
            for name in interleaved(list(arms), WARM_UP_PAIRS + pairs):
                found[name].append(cpu_per_task(control, client, arms[name], body, tasks))
            without, timed = (found[name][WARM_UP_PAIRS:] for name in arms)
            low, high = interval([a / b for a, b in zip(timed, without, strict=True)])
            ratio = median(timed) / median(without)
            worst = max(worst, ratio)
            print(
                f"{title}: {median(without):.1f} us per task without, {median(timed):.1f} with, "
                f"ratio {ratio:.3f}; median of paired ratios {low:.3f} to {high:.3f}"
            )
    print(closing_line("the larger ratio of medians", worst, ASKED))


def ledger_of(
    control: Control, client: Client, workload: Workload, sizes: Sequence[int], rounds: int
) -> BackendResult:
    """Return the result of one workload, with a limit on the growth of each step."""
    recorder = Recorder(control, [backend()], 60.0)
    for _ in range(rounds):
        for size in sizes:
            with recorder.round(scale=size):
                workload(client, size)
            clean(control)
    limits = [parse_limit(f"growth(cpu, intake:{step}) <= 9") for step in STEPS]
    assessment = assess(recorder, limits, None)
    if assessment.troubles:
        sys.exit("\n".join(assessment.troubles))
    return assessment.backends[0]


def growth_of(result: BackendResult) -> dict[str, float]:
    return {
        finding.subject: finding.estimate.value
        for limit in result.limits
        for finding in limit.findings
    }


def ledger(sizes: Sequence[int], rounds: int) -> None:
    with load() as (control, client):
        WORKLOADS["many_tiny_tasks"](client, 100)
        for name, workload in WORKLOADS.items():
            result = ledger_of(control, client, workload, sizes, rounds)
            assert result.costs
            tasks, growth = result.window.tasks, growth_of(result)
            whole = result.costs.whole
            graphs = whole["intake_calls"]
            print(
                f"{name}: {whole['intake_cpu'] / tasks * 1e6:.1f} us of CPU per task, "
                f"{tasks} tasks in {graphs:.0f} graphs",
                flush=True,
            )
            cells = [
                f"{each.function} {each.total['intake_cpu'] / tasks * 1e6:.1f} us "
                f"** {growth.get(each.function, 0.0):.2f}"
                for each in result.costs.functions
                if each.total["intake_cpu"] > 0.02 * whole["intake_cpu"]
            ]
            print(f"  {', '.join(cells).replace('intake:', '')}", flush=True)


LEVELS = ("high_level_graph", "low_level_graph")


def steps_of(control: Control, client: Client, name: str, tasks: int) -> dict[str, float]:
    """Microseconds of CPU per task of each step of one round, the client's first."""
    control.call(collect_between_rounds)
    recorder = Recorder(control, [backend()], 60.0, watch=ClientWatch(client))
    with recorder.round():
        WORKLOADS[name](client, tasks)
    clean(control)
    found = phases_of(assess(recorder, (), None).backends)
    if recorder.troubles or found is None:
        sys.exit("\n".join(recorder.troubles))
    costs = [(f"{each.where}: {each.name}", each) for each in (*found.phases, *found.steps)]
    return {step: each.cpu_seconds_per_task * 1e6 for step, each in costs}


def levels(pairs: int, tasks: int) -> None:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in LEVELS}
    with load() as (control, client):
        for name in interleaved(LEVELS, WARM_UP_PAIRS + pairs):
            found[name].append(steps_of(control, client, name, tasks))
    rounds = {name: each[WARM_UP_PAIRS:] for name, each in found.items()}
    steps = [step for step in rounds[LEVELS[0]][0] if step != f"scheduler: {ONCE}"]
    print(f"{'us of CPU per task':28s}{'high-level':>12s}{'low-level':>12s}")
    for step in steps:
        costs = [fmean(each[step] for each in rounds[name]) for name in LEVELS]
        if max(costs) >= SHOWN_US:
            print(f"{step:28s}{costs[0]:12.1f}{costs[1]:12.1f}")
    for where in ("client", "scheduler", ""):
        sums = [
            [sum(each[step] for step in steps if step.startswith(where)) for each in rounds[name]]
            for name in LEVELS
        ]
        low, high = interval([b / a for a, b in zip(*sums, strict=True)])
        print(
            f"{where or 'both':28s}{median(sums[0]):12.1f}{median(sums[1]):12.1f}, "
            f"median of paired ratios {low:.2f} to {high:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("cost", "ledger", "levels"))
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--sizes", default="500,2000")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "cost":
        cost(arguments.pairs, arguments.tasks)
    elif arguments.what == "levels":
        levels(arguments.pairs, arguments.tasks)
    else:
        ledger([int(each) for each in arguments.sizes.split(",")], arguments.rounds)


if __name__ == "__main__":
    main()
