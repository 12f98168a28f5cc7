"""Measure what the ledger of graph intake costs, and write it for the shipped workloads.

    python benchmarks/intake.py cost [--pairs 12] [--tasks 4000]
    python benchmarks/intake.py ledger [--sizes 500,2000] [--rounds 3]

- `cost`: CPU time of the scheduler per task with the backend and without, in turns on one scheduler
  with hollow workers, for tasks in one graph and for tasks in a graph each.
- `ledger`: CPU time per task of each step at the largest size, and its growth over the sizes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from distributed import Client, wait
from figures import closing_line, interleaved, interval
from overhead import WARM_UP_PAIRS, collect_between_rounds, inc, load

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.builtin.intake import IntakeBackend
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.gates.limits import parse_limit
from pytest_schedprof.measuring.assessment import assess
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.intake import STEPS
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.remote.control import Control
from pytest_schedprof.workloads import WORKLOADS, Workload

ASKED = 1.10

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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("cost", "ledger"))
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--sizes", default="500,2000")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "cost":
        cost(given.pairs, given.tasks)
    else:
        ledger([int(each) for each in given.sizes.split(",")], given.rounds)


if __name__ == "__main__":
    main()
