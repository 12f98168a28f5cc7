"""Measure whether injected regressions are found, and nothing else, by the product's own code.

    python benchmarks/regressions.py counts  [--trials 100] [--noise]
    python benchmarks/regressions.py shares  [--backend cputime] [--trials 200] [--noise]
    python benchmarks/regressions.py power   [--backend cputime] [--trials 20] [--rate 250]
    python benchmarks/regressions.py draws   [--backend cputime] [--trials 200] [--rate 250]
    python benchmarks/regressions.py turns   [--backend counts,cputime] [--trials 50] [--budget 20]
    python benchmarks/regressions.py turns --planted [--backend counts] [--trials 50] [--budget 60]

Every measurement is a profiled test: a simulated cluster of 16 hollow workers, the same independent
tasks, assessed and compared as the plugin does. Changes are planted in the running scheduler
(tests/injection.py) and removed again.

- `counts`: at least 1 % more bytecodes in one function of the state machine, a different one in
  each trial, and comparisons of unchanged code between the trials.
- `shares`: comparisons of unchanged code, with several rounds on either side.
- `power`: a function with a share of p gets a share of p + 6 points; and comparisons of what was
  measured before, of identical code.
- `draws`: the same from few rounds, for a busy machine: rounds of both sides are recorded in turns,
  and each trial compares some of the one with some of the other. Trials share rounds, so they are
  not independent of each other.
- `turns`: A/B in one session, of identical code or with one function 10 % slower.

With --noise two processes take a core each in bursts, as neighbours on a shared machine do.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import combinations
from math import ceil
from pathlib import Path
from random import Random
from statistics import mean, median, stdev

from coverage import neighbours
from distributed import Client, wait

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.clusters.under_test import SchedulerUnderTest, clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.measuring.plan import make_plan
from pytest_schedprof.measuring.profiling import ProfiledTest
from pytest_schedprof.measuring.settings import Settings, read_call
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.limit import Estimate, Verdict
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import by_test

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from injection import plant, uproot

MODULE = "distributed.scheduler"
HOT = "SchedulerState._transition"

WORKERS = 16
COUNTED_TASKS, SAMPLED_TASKS = 300, 1000
POWER_TASKS = 4800
"""Tasks per round; rounds are few and long, because starts and stops take time and tell nothing."""

RATE_HZ, SLOW_RATE_HZ = 250, 100
"""Samples per second: the most that the kernel's tick allows, and what py-spy can keep up with."""

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

    def __init__(self, opened: ExitStack, rate: float | None = None) -> None:
        self.rate = rate
        self.last: ProfiledTest | None = None
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


def profiled_test(
    bench: Bench, settings: Settings, other: SchedulerUnderTest | None = None
) -> ProfiledTest:
    plan = make_plan(settings, BackendRegistry(), Nowhere())
    return ProfiledTest("benchmark", plan, Nowhere(), bench.scheduler, other)


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
    rate = bench.rate or (SLOW_RATE_HZ if "pyspy" in backends else RATE_HZ)
    settings = read_call("a benchmark", (), {}, backend=backends, rounds=rounds, rate=rate)
    settings = settings._replace(against="the other side" if against else None, budget=budget)
    profiled = profiled_test(bench, settings, against.scheduler if against else None)
    for take, side in profiled.schedule.body_runs():
        with side.recorder.round(take.backends, take.scale):
            (bench if side.scheduler is bench.scheduler else against or bench).body(tasks)
        with suppress(SchedprofError):  # on a busy machine a worker may answer late
            clean(side.scheduler.control)
    bench.last = profiled
    return assessed(profiled)


def assessed(profiled: ProfiledTest) -> Result:
    profiled.assess()
    result = profiled.record("passed")
    if result.troubles:
        sys.exit("\n".join(result.troubles))
    return result


def compared(before: Result, after: Result) -> Comparison:
    (comparison,) = compare(by_test([before]), by_test([after])).comparisons
    for reason in comparison.reasons:  # on a busy machine: neither a false alarm nor a valid trial
        print("not compared:", reason)
    return comparison


def regressed(comparison: Comparison) -> list[str]:
    return [f"{change.metric} {change.subject}" for change in comparison.of(Outcome.REGRESSED)]


def counts(trials: int) -> None:
    with ExitStack() as opened:
        bench = Bench(opened)
        bench.measure("counts", COUNTED_TASKS, 3)
        before = bench.measure("counts", COUNTED_TASKS, 3)
        targets = list(state_machine(before))
        caught, alarms, seconds = 0, 0, []
        for trial in range(trials):
            start = time.monotonic()
            name, statements = targets[trial % len(targets)]
            bench.change(name, "_ = None; " * statements)
            changes = regressed(compared(before, bench.measure("counts", COUNTED_TASKS, 3)))
            bench.restore()
            caught += f"bytecodes {MODULE}:{name}" in changes
            seconds.append(time.monotonic() - start)
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
    for function in backend.costs.functions:
        module, _, name = function.function.partition(":")
        calls, codes = (function.total.get(key, 0) for key in ("calls", "bytecodes"))
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


def power(backend: str, trials: int, rounds: int, rate: float | None) -> None:
    with ExitStack() as opened:
        bench = Bench(opened, rate)
        loop = calibrated(bench, backend)
        caught, seconds, sides, unchanged = 0, [], [], []
        for trial in range(trials):
            start = time.monotonic()
            before = bench.measure(backend, POWER_TASKS, rounds)
            bench.change(HOT, loop)
            after = bench.measure(backend, POWER_TASKS, rounds)
            seconds.append(time.monotonic() - start)
            bench.restore()
            caught += f"share {MODULE}:{HOT}" in regressed(compared(before, after))
            sides.append((before, after))
            unchanged.append(before)
            print(f"caught {caught} of {trial + 1} in {seconds[-1]:.1f} s", flush=True)
    for name, side in zip(("before", "after"), zip(*sides, strict=True), strict=True):
        print(f"{name}: {described(side)}")
    print(f"{backend}, {rounds} rounds each: caught in {caught} of {trials}, asked: 95 %")
    print(f"seconds per trial: median {median(seconds):.1f}, most {max(seconds):.1f}, asked: 30")
    print_nulls(unchanged)


def described(results: Sequence[Result]) -> str:
    """Return the share of the hot function, the samples, and the scatter between results."""
    estimates = [hot(result) for result in results]
    values, samples = (
        [estimate.value for estimate in estimates],
        mean(estimate.samples for estimate in estimates),
    )
    binomial = (mean(values) * (1 - mean(values)) / samples) ** 0.5
    scatter = stdev(values) / binomial if len(values) > 1 else 0.0
    dispersion = median(estimate.dispersion for estimate in estimates)
    return (
        f"share {mean(values):.1%}, {samples:.0f} busy samples, scatter between trials "
        f"{scatter:.2f} times binomial, dispersion between rounds {dispersion:.2f}"
    )


def print_nulls(results: Sequence[Result]) -> None:
    """Compare what was measured of identical code: each pair, and neighbours in time alone."""
    pairs = list(combinations(range(len(results)), 2))
    false = [pair for pair in pairs if regressed(compared(*(results[i] for i in pair)))]
    near = sum(after - before == 1 for before, after in false)
    print(
        f"identical code: {len(false)} of {len(pairs)} pairs regressed in any figure, "
        f"{near} of {len(results) - 1} neighbours, asked: 1 of 200"
    )


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


RECORDED, FEW = 16, 8
"""Rounds of each side from which trials are drawn; and rounds to find the planted loop by."""


def draws(backend: str, trials: int, rounds: int, rate: float | None) -> None:
    with ExitStack() as opened:
        bench = Bench(opened, rate)
        base = share(bench.measure(backend, POWER_TASKS, FEW))
        bench.change(HOT, "for _ in range(1500): pass")
        gained = share(bench.measure(backend, POWER_TASKS, FEW)) - base
        bench.restore()
        loop = f"for _ in range({round(0.06 * 1500 / gained)}): pass"
        print(f"{loop!r} is planted", flush=True)
        before, after = recorded_in_turns(bench, backend, loop)
        print_draws(bench, before, after, trials, rounds)


def recorded_in_turns(
    bench: Bench, backend: str, loop: str
) -> tuple[list[ProfiledTest], list[ProfiledTest]]:
    before: list[ProfiledTest] = []
    after: list[ProfiledTest] = []
    for _ in range(RECORDED):
        start = time.monotonic()
        for side in (before, after):
            if side is after:
                bench.change(HOT, loop)
            bench.scheduler.control.call(facts.collect_garbage)  # as before each of several rounds
            bench.measure(backend, POWER_TASKS)
            assert bench.last
            side.append(bench.last)
            bench.restore()
        print(f"a round of each side in {time.monotonic() - start:.1f} s", flush=True)
    return before, after


def print_draws(
    bench: Bench,
    before: Sequence[ProfiledTest],
    after: Sequence[ProfiledTest],
    trials: int,
    rounds: int,
) -> None:
    drawn, caught, false = Random(1), 0, 0
    olds, news = [], []
    for _ in range(trials):
        some = drawn.sample(before, 2 * rounds)
        first, second = (joined(bench, half) for half in (some[:rounds], some[rounds:]))
        changed = joined(bench, drawn.sample(after, rounds))
        caught += f"share {MODULE}:{HOT}" in regressed(compared(first, changed))
        false += bool(regressed(compared(first, second)))
        olds.append(first)
        news.append(changed)
    print(f"before: {described(olds)}\nafter: {described(news)}")
    print(f"{trials} trials of {rounds} rounds each: caught in {caught}, asked: 95 %")
    print(f"identical code: {false} of {trials} regressed in any figure, asked: 1 of 200")


def joined(bench: Bench, tests: Sequence[ProfiledTest]) -> Result:
    """Return the result of a test whose rounds are those of several."""
    settings = tests[0].plan.settings._replace(rounds=len(tests))
    test = profiled_test(bench, settings)
    test.recorder.rounds = [list(test.recorder.rounds[0]) for test in tests]
    return assessed(test)


def hot(result: Result) -> Estimate:
    (backend,) = result.backends
    assert backend.shares
    name = f"{MODULE}:{HOT}"
    return next(e.share for e in backend.shares.functions if e.function == name)


def share(result: Result) -> float:
    return hot(result).value


def turns(backends: str, trials: int, budget: float, *, is_planted: bool) -> None:
    """Run A/B trials; if planted, the hot function is 10 % slower and has 10 % more bytecodes."""
    with ExitStack() as opened:
        one, other = Bench(opened), Bench(opened)
        tasks = SAMPLED_TASKS if "counts" not in backends else COUNTED_TASKS
        for bench in (one, other):
            bench.measure(backends, tasks)
        if is_planted:
            one.change(HOT, "_ = None; " * 9)
        caught, seconds = 0, []
        for _ in range(trials):
            start = time.monotonic()
            result = measure(one, backends, tasks, against=other, budget=budget)
            seconds.append(time.monotonic() - start)
            is_found = any(comparison.verdict is Verdict.FAIL for comparison in result.comparisons)
            caught += is_found
            if is_found and not is_planted:
                print("false alarm:", *[regressed(comparison) for comparison in result.comparisons])
    code = "one function 10 % slower" if is_planted else "identical code"
    aim = "48 of 50" if is_planted else "none"
    print(f"{backends}, {code}: regressed in {caught} of {trials}, asked: {aim}")
    print(f"seconds per trial: median {median(seconds):.1f}, most {max(seconds):.1f}, asked: 60")


@contextmanager
def surroundings(noise: bool) -> Iterator[None]:
    with neighbours(2 if noise else 0):
        yield


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("counts", "shares", "power", "draws", "turns"))
    parser.add_argument("--backend")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--rate", type=float, help="samples per second")
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--noise", action="store_true")
    options = parser.parse_args(arguments)
    with surroundings(options.noise):
        if options.what == "counts":
            counts(options.trials or 100)
        elif options.what == "shares":
            shares(options.backend or "cputime", options.trials or 200, options.rounds or 3)
        elif options.what == "draws":
            draws(
                options.backend or "cputime",
                options.trials or 200,
                options.rounds or 5,
                options.rate,
            )
        elif options.what == "power":
            power(
                options.backend or "cputime",
                options.trials or 20,
                options.rounds or 5,
                options.rate,
            )
        else:
            backends = options.backend or "counts,cputime"
            turns(backends, options.trials or 50, options.budget, is_planted=options.planted)


if __name__ == "__main__":
    main()
