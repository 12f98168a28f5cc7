"""Compare where thresholds come from: constants, or the series of runs itself.

    python benchmarks/thresholds.py [--series 20] [--nights DIR] [--planted 20] [--only-seeded]

Each run of a series is compared with the one before it, or with all before it, as `schedprof
compare` does:

- bare: any figure rose by a constant (1 % of a count, 5 % of CPU time, 2 points of a share);
- constants: the rules of a comparison with one earlier run;
- quartiles: as rustc-perf does, the rise from the run before is beyond the third quartile, plus
  three times the range, of the changes between the last 30 runs, and beyond the constant;
- history: the rules of a comparison with a directory of runs.

The series are the seeded ones of `change_points.py`, and nights: real sessions on clusters of our
own (`nights.py`), of which the last third has a slower scheduler. 30 nights take an hour on two
busy cores; with `--nights DIR` they are kept, and not run again.

- false: runs in 100 with a regression, of those without a rise in the last dozen of runs.
- found: rises that were called a regression within a dozen of runs.
- days: runs until then, of those found, in the median; 1 is the first run with the rise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import TypeAlias

from msgspec.structs import replace
from nights import CLUSTERS, collect, nights_of
from series import FROM_ENDS, KINDS, Series, histories

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.exact import EXACT_RISE
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.series import LEAST_RUNS
from pytest_schedprof.judge.timed import CPU_RISE, SEEN_FROM, SHARE_RISE
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import by_test
from pytest_schedprof.store.baselines import MOST_RUNS

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from measured import SCHEDULER, counted, measured, sampled

SEED = 20261125
"""Other series than those on which constants were chosen."""
WITHIN = 12
"""Runs after a rise in which a regression is this rise."""

NIGHTS, PLANTED = 30, 20

FUNCTION = f"{SCHEDULER}._transition"
SAMPLES = 800
"""Samples of a seeded share, whose noise is of 400 to 1200."""

LEAST_PART = 1e-4
"""Part of all bytecodes below which a function is not looked at, as in comparisons."""


@dataclass(frozen=True)
class Case:
    """One run of a test, and the runs before it, the newest last."""

    earlier: Sequence[Result]
    after: Result


Rule: TypeAlias = Callable[[Case], bool]
Amounts: TypeAlias = dict[tuple[str, str], float]


def constants(case: Case) -> bool:
    return _is_regressed(case)


def history(case: Case) -> bool:
    return _is_regressed(case, case.earlier[1 - MOST_RUNS : -1])


def _is_regressed(case: Case, past: Sequence[Result] | None = None) -> bool:
    earlier = None if past is None else {case.after.test_id: past}
    report = compare(by_test([case.earlier[-1]]), by_test([case.after]), earlier=earlier)
    return report.verdict is Verdict.FAIL


def bare(case: Case) -> bool:
    before, after = amounts(case.earlier[-1]), amounts(case.after)
    return any(after[name] - before[name] >= least(name, before) for name in both(before, after))


def quartiles(case: Case) -> bool:
    before, after = amounts(case.earlier[-1]), amounts(case.after)
    past = [amounts(result) for result in case.earlier[-MOST_RUNS:]]
    if len(past) < LEAST_RUNS:
        return bare(case)
    return any(
        after[name] - before[name] >= max(least(name, before), fence(name, past) * before[name])
        for name in both(before, after)
    )


def fence(name: tuple[str, str], past: Sequence[Amounts]) -> float:
    values = [amounts_of[name] for amounts_of in past if amounts_of.get(name)]
    changes = [abs(b - a) / a for a, b in pairwise(values)]
    if len(changes) < LEAST_RUNS - 1:
        return 0.0
    first, _, third = quantiles(changes, n=4)
    return third + 3 * (third - first)


def both(before: Amounts, after: Amounts) -> list[tuple[str, str]]:
    return [name for name in after if before.get(name)]


def least(name: tuple[str, str], before: Amounts) -> float:
    """The rise that counts by a constant."""
    metric = name[0]
    if metric == "share":
        return SHARE_RISE
    part = CPU_RISE if metric == "cpu" else EXACT_RISE
    return part * before[name]


RULES: dict[str, Rule] = {
    "bare": bare,
    "constants": constants,
    "quartiles": quartiles,
    "history": history,
}

_AMOUNTS: dict[int, tuple[Result, Amounts]] = {}


def amounts(result: Result) -> Amounts:
    """The figures of a result that rules without statistics look at."""
    known = _AMOUNTS.get(id(result))
    if known is None or known[0] is not result:
        known = _AMOUNTS[id(result)] = (result, dict(_amounts(result)))
    return known[1]


def _amounts(result: Result) -> Iterator[tuple[tuple[str, str], float]]:
    for backend in result.backends:
        figures = Measurement(result, backend)
        if backend.shares:
            yield ("cpu", ""), figures.cpu.value
            for subject, share in figures.shares.items():
                if share.value >= SEEN_FROM:
                    yield ("share", subject), share.value
        exact = figures.exact("bytecodes")
        total = sum(figure.value for figure in exact.values())
        for function, figure in exact.items():
            if figure.value >= LEAST_PART * total:
                yield ("bytecodes", function), figure.value


@dataclass
class Score:
    """What one rule made of some series."""

    runs: int = 0
    false: int = 0
    rises: int = 0
    days: list[int] = field(default_factory=list)

    def __add__(self, other: Score) -> Score:
        return Score(
            self.runs + other.runs,
            self.false + other.false,
            self.rises + other.rises,
            self.days + other.days,
        )

    def cell(self) -> str:
        false = f"{100 * self.false / self.runs:.1f}" if self.runs else "-"
        if not self.rises:
            return false
        days = f", {median(self.days):.0f} d" if self.days else ""
        return f"{false}; {len(self.days)} of {self.rises}{days}"


def score(rule: Rule, cases: Sequence[Case | None], rises: Sequence[int]) -> Score:
    """Judge the runs of one series.

    Args:
        rule: that judges.
        cases: by number of the run; None where it is not judged.
        rises: numbers of the first runs with a rise.
    """
    total = Score(rises=len(rises))
    seen: set[int] = set()
    for number, case in enumerate(cases):
        if case is None:
            continue
        recent = [rise for rise in rises if rise <= number < rise + WITHIN]
        is_alarm = (not recent or recent[-1] not in seen) and rule(case)
        if not recent:
            total.runs, total.false = total.runs + 1, total.false + is_alarm
        elif is_alarm:
            seen.add(recent[-1])
            total.days.append(number - recent[-1] + 1)
    return total


def seeded(kind: str, series: Series) -> tuple[list[Case | None], list[int]]:
    """The runs of a seeded history, and those of its steps that go up."""
    results = [result_of(kind, value, number) for number, value in enumerate(series.values)]
    cases: list[Case | None] = [None] * LEAST_RUNS
    for number in range(LEAST_RUNS, len(results)):
        earlier = results[max(0, number - MOST_RUNS) : number]
        cases.append(Case(earlier, results[number]))
    rises = [
        place for place in series.steps if place >= LEAST_RUNS and _goes_up(series.values, place)
    ]
    return cases, rises


def _goes_up(values: Sequence[float], place: int) -> bool:
    return median(values[place : place + FROM_ENDS]) > median(values[place - FROM_ENDS : place])


def result_of(kind: str, value: float, number: int) -> Result:
    """A record with this figure: bytecodes, a share, or CPU time in us, per task."""
    started = f"{2000 + number}-01-01T00:00:00+00:00"
    if kind.startswith("counts"):
        return measured(counted({FUNCTION: value}), started_at=started)
    window = sampled_once()
    if kind == "share":
        return measured(_with_share(window, value), started_at=started)
    cpu = tuple(
        replace(segment, cpu_seconds=value * 1e-6 * segment.tasks)
        for segment in window.window.segments
    )
    window = replace(window, window=replace(window.window, segments=cpu))
    return measured(window, started_at=started)


@cache
def sampled_once() -> BackendResult:
    return sampled(
        {("a:root", FUNCTION): 0.3, ("a:root", "b:rest"): 0.7}, cpu=[300e-6], samples=SAMPLES
    )


def _with_share(window: BackendResult, value: float) -> BackendResult:
    assert window.shares
    functions = tuple(
        replace(function, share=replace(function.share, value=value))
        if function.function == FUNCTION
        else function
        for function in window.shares.functions
    )
    return replace(window, shares=replace(window.shares, functions=functions, owners=()))


def of_nights(
    place: Path, cluster: str, test: str, planted: int = PLANTED
) -> tuple[list[Case | None], list[int]]:
    """The nights of one test, and the first one with the planted regression."""
    results: list[Result] = []
    cases: list[Case | None] = []
    for night in nights_of(place, cluster):
        results = [result for result in night if result.test_id.endswith(f"test_{test}")]
        usable = [result for result in results if result.is_usable]
        cases.append(Case(tuple(results), usable[0]) if usable and results else None)
        results += usable
    return cases, [planted - 1] if len(cases) >= planted > 0 else []


def main() -> None:
    parser = argparse.ArgumentParser(description="Thresholds from constants and from history.")
    parser.add_argument("--series", type=int, default=20, help="of each kind (default: 20)")
    parser.add_argument("--nights", type=Path, help="directory of nights, which is kept")
    parser.add_argument(
        "--planted", type=int, default=PLANTED, help="first slower night (default: 20); 0 for none"
    )
    parser.add_argument("--only-seeded", action="store_true", help="no nights")
    arguments = parser.parse_args()
    rows: dict[str, list[tuple[list[Case | None], list[int]]]] = {
        kind: [seeded(kind, history) for history in histories(kind, arguments.series, SEED)]
        for kind in KINDS
    }
    print(f"| false in 100; found, days | {' | '.join(RULES)} |")
    print(f"|---|{'---|' * len(RULES)}")
    report(rows, "all seeded")
    if arguments.only_seeded:
        return
    with tempfile.TemporaryDirectory(prefix="nights-") as temporary:
        place = arguments.nights or Path(temporary)
        try:
            collect(place, NIGHTS, arguments.planted)
        except SchedprofError as error:
            sys.exit(str(error))
        nights = {
            f"{cluster} cluster, {test}": [of_nights(place, cluster, test, arguments.planted)]
            for cluster, tests in CLUSTERS.items()
            for test in tests
        }
    report(nights, "all nights")


def report(rows: dict[str, list[tuple[list[Case | None], list[int]]]], together: str) -> None:
    """Print a row for each kind of series, and one for all of them."""
    totals = {name: Score() for name in RULES}
    for kind, series in rows.items():
        scores = {
            name: sum((score(rule, *one) for one in series), Score())
            for name, rule in RULES.items()
        }
        totals = {name: totals[name] + total for name, total in scores.items()}
        print(_row(kind, scores), flush=True)
    print(_row(f"**{together}**", totals), flush=True)


def _row(name: str, scores: dict[str, Score]) -> str:
    return f"| {name} | {' | '.join(score.cell() for score in scores.values())} |"


if __name__ == "__main__":
    main()
