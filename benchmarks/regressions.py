"""Measure whether injected regressions are found, and nothing else, by the product's own code.

    python benchmarks/regressions.py counts  [--trials 100] [--noise]
    python benchmarks/regressions.py shares  [--backend cputime] [--trials 200] [--noise]
    python benchmarks/regressions.py power   [--backend cputime] [--trials 20] [--noise]
    python benchmarks/regressions.py turns   [--backend counts,cputime] [--trials 50] [--budget 20]
    python benchmarks/regressions.py turns --planted [--backend counts] [--trials 50] [--budget 60]

Every measurement is a profiled test: a simulated cluster of 16 hollow workers, the same independent
tasks, assessed and compared as the plugin does. Changes are planted in the running scheduler
(tests/injection.py) and removed again.

- `counts`: at least 1 % more bytecodes in one function of the state machine, a different one in
  each trial, and comparisons of unchanged code between the trials.
- `shares`: comparisons of unchanged code, with several rounds on either side.
- `power`: a function with a share of p gets a share of p + 6 points.
- `turns`: A/B in one session, of identical code or with one function 10 % slower.

With --noise two processes take a core each in bursts, as neighbours on a shared machine do.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import ceil
from pathlib import Path
from statistics import mean, median

from coverage import neighbours
from distributed import Client, wait

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import SchedulerUnderTest, clean
from pytest_schedprof.comparison.compare import compare
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.measuring.plan import make_plan
from pytest_schedprof.measuring.profiling import ProfiledTest
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.remote.control import Control
from pytest_schedprof.settings.markers import read_call

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from injection import plant, uproot

MODULE = "distributed.scheduler"
HOT = "SchedulerState._transition"

WORKERS = 16
COUNTED_TASKS, SAMPLED_TASKS = 300, 1000
POWER_TASKS = 4800
"""Tasks per round; rounds are few and long, because starts and stops take time and tell nothing."""

RATE_HZ, SLOW_RATE_HZ = 250, 100
"""Samples per second: the most that the kernel's clock allows, and what py-spy can keep up with."""

LEAST_BYTECODES = 100
"""Bytecodes per call; in a smaller function, one more statement is far above 1 %."""

LEAST_OF_A_TASK = 50
"""Bytecodes per task; 1 % of fewer is below the floor of comparisons."""


class Nowhere:
    """A store that keeps nothing."""

    def prepare(self) -> None:
        """Do nothing."""

    def new_test(self, test_id: str) -> None:
        """Create no directory."""


def inc(x: int) -> int:
    return x + 1


class Bench:
    """A scheduler for repeated measurements."""

    def __init__(self, opened: ExitStack) -> None:
        cluster = SimulatedCluster(WORKERS, timeout_s=60)
        opened.callback(cluster.close)
        control = opened.enter_context(Control(cluster.address))
        client = opened.enter_context(Client(cluster.address, set_as_default=False))
        self.scheduler = SchedulerUnderTest(client, cluster, control)

    def body(self, tasks: int) -> None:
        """Run the body of a test."""
        with self.scheduler.client.as_current():
            wait(self.scheduler.client.map(inc, range(tasks), pure=False), timeout=120)

    def change(self, qualname: str, statement: str) -> None:
        """Plant a change."""
        self.scheduler.client.run_on_scheduler(
            plant, module=MODULE, qualname=qualname, statement=statement
        )

    def restore(self) -> None:
        """Remove the change."""
        self.scheduler.client.run_on_scheduler(uproot, module=MODULE)

    def measure(self, backends: str, tasks: int, rounds: int = 1) -> Result:
        """Run one profiled test."""
        return measure(self, backends, tasks, rounds=rounds)


def measure(
    bench: Bench,
    backends: str,
    tasks: int,
    *,
    rounds: int = 1,
    against: Bench | None = None,
    budget: float = 60.0,
) -> Result:
    """Run one profiled test, in turns with another scheduler if there is one."""
    rate = SLOW_RATE_HZ if "pyspy" in backends else RATE_HZ
    settings = read_call("a benchmark", (), {}, backend=backends, rounds=rounds, rate=rate)
    settings = settings._replace(against="the other side" if against else None, budget=budget)
    plan = make_plan(settings, BackendRegistry(), Nowhere())
    other_schedulers = {"against": against.scheduler} if against else {}
    profiled = ProfiledTest("benchmark", plan, Nowhere(), bench.scheduler, other_schedulers)
    for take, side in profiled.schedule.body_runs():
        with side.recorder.round(take.backends, take.scale):
            (bench if side.scheduler is bench.scheduler else against or bench).body(tasks)
        with suppress(SchedprofError):  # on a busy machine a worker may answer late
            clean(side.scheduler.control)
    profiled.assess()
    result = profiled.record("passed")
    if result.troubles:
        sys.exit("\n".join(result.troubles))
    return result


def compared(before: Result, after: Result) -> Comparison:
    (comparison,) = compare([before], [after]).comparisons
    for reason in comparison.reasons:  # on a busy machine: neither a false alarm nor a valid trial
        print("not compared:", reason)
    return comparison


def regressed(comparison: Comparison) -> list[str]:
    return [f"{each.metric} {each.subject}" for each in comparison.of(Outcome.REGRESSED)]


def counts(trials: int) -> None:
    with ExitStack() as opened:
        bench = Bench(opened)
        bench.measure("counts", COUNTED_TASKS, 3)
        before = bench.measure("counts", COUNTED_TASKS, 3)
        targets = list(state_machine(before))
        caught, alarms, seconds = 0, 0, []
        for trial in range(trials):
            begun = time.monotonic()
            name, statements = targets[trial % len(targets)]
            bench.change(name, "_ = None; " * statements)
            found = regressed(compared(before, bench.measure("counts", COUNTED_TASKS, 3)))
            bench.restore()
            caught += f"bytecodes {MODULE}:{name}" in found
            seconds.append(time.monotonic() - begun)
            again = bench.measure("counts", COUNTED_TASKS, 3)
            if wrong := regressed(compared(before, again)):
                alarms += 1
                print("false alarm:", *wrong)
            before = again
    print(f"functions: {', '.join(name for name, _ in targets)}")
    print(f"1 % more bytecodes: caught in {caught} of {trials}, asked: all")
    print(f"unchanged code: {alarms} false alarms of {trials}, asked: none")
    print(f"seconds per trial: median {median(seconds):.1f}, most {max(seconds):.1f}, asked: 10")


def state_machine(result: Result) -> Iterator[tuple[str, int]]:
    """Yield methods, with the number of statements that make up at least 1 % of each."""
    (backend,) = result.backends
    assert backend.costs
    for each in backend.costs.functions:
        module, _, name = each.function.partition(":")
        calls, codes = (each.total.get(key, 0) for key in ("calls", "bytecodes"))
        is_method = module == MODULE and name.count(".") == 1 and "<" not in name
        least = LEAST_OF_A_TASK * backend.window.tasks
        if is_method and codes >= max(LEAST_BYTECODES * calls, least):
            yield name, ceil(0.01 * codes / calls / 2)


def shares(backend: str, trials: int, rounds: int) -> None:
    with ExitStack() as opened:
        bench = Bench(opened)
        bench.measure(backend, SAMPLED_TASKS)
        before = bench.measure(backend, SAMPLED_TASKS, rounds)
        failures, figures, undecided = 0, [], []
        for _ in range(trials):
            after = bench.measure(backend, SAMPLED_TASKS, rounds)
            comparison = compared(before, after)
            if wrong := regressed(comparison):
                failures += 1
                print("false alarm:", *wrong)
            figures.append(comparison.same + len(comparison.changes))
            undecided.append(len(comparison.of(Outcome.UNDECIDED)))
            before = after
    print(f"{backend}: {rounds} rounds of {SAMPLED_TASKS} tasks on either side")
    print(
        f"{mean(figures):.0f} figures of each test, of which {mean(undecided):.0f} were undecided"
    )
    print(f"unchanged code: {failures} of {trials} tests failed, asked: at most {trials // 100}")


def power(backend: str, trials: int, rounds: int) -> None:
    with ExitStack() as opened:
        bench = Bench(opened)
        loop = calibrated(bench, backend)
        caught, seconds, found = 0, [], []
        for trial in range(trials):
            begun = time.monotonic()
            before = bench.measure(backend, POWER_TASKS, rounds)
            bench.change(HOT, loop)
            after = bench.measure(backend, POWER_TASKS, rounds)
            seconds.append(time.monotonic() - begun)
            bench.restore()
            caught += f"share {MODULE}:{HOT}" in regressed(compared(before, after))
            found.append((share(before), share(after)))
            print(f"caught {caught} of {trial + 1} in {seconds[-1]:.1f} s", flush=True)
    before_, after_ = (mean(side) for side in zip(*found, strict=True))
    print(
        f"{backend}: share of {HOT} {before_:.1%} before, {after_:.1%} after, {rounds} rounds each"
    )
    print(f"caught in {caught} of {trials}, asked: 95 %")
    print(f"seconds per trial: median {median(seconds):.1f}, most {max(seconds):.1f}, asked: 30")


def calibrated(bench: Bench, backend: str, gain: float = 0.06) -> str:
    """Find by measuring a loop that raises the share of the hot function by `gain`."""
    base = share(bench.measure(backend, POWER_TASKS, 10))
    turns, tried, gained = 500, 0, 0.0
    for _ in range(4):
        bench.change(HOT, f"for _ in range({turns}): pass")
        gained += share(bench.measure(backend, POWER_TASKS, 5)) - base
        tried += turns
        turns = round(gain * tried / gained)
    bench.restore()
    print(f"share at first {base:.1%}; a loop of {turns} turns")
    return f"for _ in range({turns}): pass"


def share(result: Result) -> float:
    (backend,) = result.backends
    assert backend.shares
    name = f"{MODULE}:{HOT}"
    return next(e.share.value for e in backend.shares.functions if e.function == name)


def turns(backends: str, trials: int, budget: float, *, is_planted: bool) -> None:
    """Run A/B trials; if planted, the hot function is 10 % slower and has 10 % more bytecodes."""
    with ExitStack() as opened:
        here, there = Bench(opened), Bench(opened)
        tasks = SAMPLED_TASKS if "counts" not in backends else COUNTED_TASKS
        for bench in (here, there):
            bench.measure(backends, tasks)
        if is_planted:
            here.change(HOT, "_ = None; " * 9)
        found, seconds = 0, []
        for _ in range(trials):
            begun = time.monotonic()
            result = measure(here, backends, tasks, against=there, budget=budget)
            seconds.append(time.monotonic() - begun)
            is_found = any(each.verdict is Verdict.FAIL for each in result.comparisons)
            found += is_found
            if is_found and not is_planted:
                print("false alarm:", *[regressed(each) for each in result.comparisons])
    what = "one function 10 % slower" if is_planted else "identical code"
    asked = "48 of 50" if is_planted else "none"
    print(f"{backends}, {what}: regressed in {found} of {trials}, asked: {asked}")
    print(f"seconds per trial: median {median(seconds):.1f}, most {max(seconds):.1f}, asked: 60")


@contextmanager
def surroundings(noise: bool) -> Iterator[None]:
    with neighbours(2 if noise else 0):
        yield


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("counts", "shares", "power", "turns"))
    parser.add_argument("--backend")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--noise", action="store_true")
    given = parser.parse_args(arguments)
    with surroundings(given.noise):
        if given.what == "counts":
            counts(given.trials or 100)
        elif given.what == "shares":
            shares(given.backend or "cputime", given.trials or 200, given.rounds or 3)
        elif given.what == "power":
            power(given.backend or "cputime", given.trials or 20, given.rounds or 5)
        else:
            backends = given.backend or "counts,cputime"
            turns(backends, given.trials or 50, given.budget, is_planted=given.planted)


if __name__ == "__main__":
    main()
