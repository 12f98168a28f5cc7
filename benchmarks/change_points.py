"""Compare five rules that find the steps of a history, and their false alarms, on the same series.

    pip install -e '.[benchmarks]' && pip install --no-deps apache-otava
    python benchmarks/change_points.py [--parts]

The series have known steps, and noise of the kinds that were measured (`series.py`). Each rule
gets the same least change, and smaller steps that it finds are dropped:

- ours: `pytest_schedprof.judge.change_points`;
- three sigma: coiled's rule, all of the last 3 points are more than 3 standard deviations from the
  mean of the 10 before (theirs looks upwards only);
- asv: the module of asv itself, with the filter of its regressions in both directions;
- PELT: that of ruptures, for means, with the variance of the noise estimated from differences of
  neighbours;
- Otava: E-divisive means with a t test, by Apache Otava itself, which cannot be in the
  `benchmarks` extra (it pins numpy, and depends on clients of databases and of Slack).
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from statistics import fmean, median, stdev
from typing import TypeAlias
from unittest.mock import patch

from figures import closing_line
from series import KINDS, Series, histories

from pytest_schedprof.judge import change_points as method
from pytest_schedprof.judge.change_points import scatter, steps_in

Rule: TypeAlias = Callable[[Series], list[int]]

TOLERANCE = 3
"""Largest distance in points between a step and the place where a rule finds it."""

GROWING = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30)
"""Numbers of points after a step at which each rule is asked whether it sees the step."""

DELAYED = 10
"""Number of series of each kind for which the delay is measured."""

SEED = 20261121
TRENDS = tuple(kind for kind in KINDS if "trend" in kind)


def large(series: Series, steps: Iterable[int]) -> list[int]:
    """Drop steps that are smaller than asked for, the smallest first."""
    places = sorted(steps)
    while places:
        borders = [0, *places, len(series.values)]
        means = [fmean(series.values[a:b]) for a, b in pairwise(borders)]
        sizes = [_size(series, a, b) for a, b in pairwise(means)]
        if min(sizes) >= 1:
            break
        del places[sizes.index(min(sizes))]
    return places


def _size(series: Series, before: float, after: float) -> float:
    least = max(series.relative * min(abs(before), abs(after)), series.absolute)
    return abs(after - before) / least


def ours(series: Series) -> list[int]:
    steps = steps_in(series.values, relative=series.relative, absolute=series.absolute)
    return [step.at for step in steps]


def three_sigma(series: Series) -> list[int]:
    """Start of each alarm; an alarm that continues is the same one."""
    ends, before = [], 0
    for end in range(13, len(series.values) + 1):
        base, last = series.values[end - 13 : end - 3], series.values[end - 3 : end]
        mean = fmean(base)
        least = max(3 * stdev(base), series.relative * mean, series.absolute)
        now = (min(last) > mean + least) - (max(last) < mean - least)
        if now and now != before:
            ends.append(end - 3)
        before = now
    return ends


def asv(series: Series) -> list[int]:
    from asv.step_detect import detect_steps

    steps = detect_steps(series.values)
    pairs = pairwise(steps)
    return large(series, [b[0] for a, b in pairs if abs(b[2] - a[2]) > max(a[4], b[4])])


def pelt(series: Series) -> list[int]:
    import numpy
    import ruptures

    values = numpy.array(series.values)
    noise = scatter(series.values) or 1e-6 * abs(values.mean())
    search = ruptures.KernelCPD(kernel="linear", min_size=3).fit(values / noise)
    return large(series, search.predict(pen=3 * log(len(values)))[:-1])


def otava(series: Series) -> list[int]:
    import numpy
    from otava.analysis import compute_change_points

    values = numpy.array(series.values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # divisions by zero variance
        try:
            points, _ = compute_change_points(values, window_len=50)
        except ValueError:  # it finds one point of an exact series in two windows, and fails
            points, _ = compute_change_points(values, window_len=2 * len(values))
    return large(series, [point.index for point in points])


RULES: dict[str, Rule] = {
    "ours": ours,
    "three sigma": three_sigma,
    "asv": asv,
    "PELT": pelt,
    "Otava": otava,
}
PACKAGES = {"asv": "asv", "PELT": "ruptures", "Otava": "otava"}


def is_there(rule: str) -> bool:
    return rule not in PACKAGES or importlib.util.find_spec(PACKAGES[rule]) is not None


@dataclass
class Score:
    """Results of a rule on many series."""

    points: int = 0
    steps: int = 0
    hits: int = 0
    false: int = 0
    delays: list[float] = field(default_factory=list)

    def __add__(self, other: Score) -> Score:
        return Score(
            self.points + other.points,
            self.steps + other.steps,
            self.hits + other.hits,
            self.false + other.false,
            self.delays + other.delays,
        )

    def line(self, name: str) -> str:
        alarms = self.hits + self.false
        precision = f"{self.hits / alarms:.1%}" if self.hits else "-"
        recall = f"{self.hits / self.steps:.1%}" if self.steps else "-"
        delay = f"{median(self.delays):.0f}" if self.delays else "-"
        return f"  {name:<12}{precision:>10}{recall:>10}{self.per_thousand:>11.2f}{delay:>7}"

    @property
    def per_thousand(self) -> float:
        return 1000 * self.false / self.points


def score(rule: Rule, series: Sequence[Series], delayed: int = DELAYED) -> Score:
    total = Score()
    for number, one in enumerate(series):
        places = rule(one)
        caught = [step for step in one.steps if take(places, step)]
        delays = [delay(rule, one, step) for step in caught] if number < delayed else []
        total += Score(len(one.values), len(one.steps), len(caught), len(places), delays)
    return total


def take(places: list[int], step: int) -> bool:
    """Remove the place that is the step, so that it matches no other; return whether it exists."""
    near = [place for place in places if abs(place - step) <= TOLERANCE]
    if near:
        places.remove(min(near, key=lambda place: abs(place - step)))
    return bool(near)


def delay(rule: Rule, series: Series, step: int) -> float:
    """Number of points after a step that a rule needs to see it."""
    for more in GROWING:
        known = Series(series.values[: step + more], [], series.relative, series.absolute)
        if take(rule(known), step):
            return more
    return float("inf")


PARTS = {
    "slopes": ("MIN_SLOPED", 10**9),
    "lasting noise": ("MOST_LASTING", 0.0),
    "outliers": ("OUTLYING", float("inf")),
    "t test": ("CHANCE", float("inf")),
}
"""Parts of our rule, and the change that disables each of them."""


def report_parts(sets: dict[str, list[Series]]) -> None:
    """Print the scores of our rule without each of its parts."""
    print(f"  {'':<12}{'precision':>10}{'recall':>10}{'false/1000':>11}{'delay':>7}")
    for name, change in {"none": None, **PARTS}.items():
        with patch.object(method, *change) if change else nullcontext():
            scores = [score(ours, series, delayed=0) for series in sets.values()]
        print(sum(scores[1:], scores[0]).line(name))


def main() -> None:
    parser = argparse.ArgumentParser(description="Change points: ours beside others' rules.")
    parser.add_argument("--series", type=int, default=100, help="of each kind (default: 100)")
    parser.add_argument("--parts", action="store_true", help="ours without each of its parts")
    arguments = parser.parse_args()
    sets = {kind: histories(kind, arguments.series, SEED) for kind in KINDS}
    if arguments.parts:
        report_parts(sets)
        return
    rules = {name: rule for name, rule in RULES.items() if is_there(name)}
    scores = {kind: {n: score(rule, sets[kind]) for n, rule in rules.items()} for kind in KINDS}
    for kind, by_rule in {**scores, "all": together(scores, KINDS)}.items():
        steps, points = by_rule["ours"].steps, by_rule["ours"].points
        print(f"{kind}: {points} points, {steps} steps")
        print(f"  {'':<12}{'precision':>10}{'recall':>10}{'false/1000':>11}{'delay':>7}")
        print("\n".join(score.line(name) for name, score in by_rule.items()))
    missing = [name for name in RULES if name not in rules]
    print(f"not installed, and left out: {', '.join(missing)}\n" if missing else "")
    report(scores)


def together(scores: dict[str, dict[str, Score]], kinds: Iterable[str]) -> dict[str, Score]:
    """Sum the scores of each rule over kinds of series."""
    first, *others = [scores[kind] for kind in kinds]
    return {name: sum((scores[name] for scores in others), first[name]) for name in first}


def report(scores: dict[str, dict[str, Score]]) -> None:
    total = together(scores, KINDS)["ours"]
    counts = together(scores, [kind for kind in KINDS if kind.startswith("counts")])["ours"]
    print(closing_line("steps of counts missed or invented", wrong(counts), 0))
    level = together(scores, [kind for kind in KINDS if kind not in TRENDS])["ours"]
    print(closing_line("false steps in 1000 points without trend", level.per_thousand, 1))
    for name, other in together(scores, KINDS).items():
        if name != "ours":
            ratio = wrong(total) / wrong(other)
            print(closing_line(f"missed and false steps, as a part of {name}'s", ratio, 1))


def wrong(score: Score) -> int:
    return score.steps - score.hits + score.false


if __name__ == "__main__":
    main()
