"""Compare two sets of results, test by test and backend by backend.

Five types lead from two records to a verdict. What a backend measured in a test is a `Measurement`
(`figures.py`), which gives each of its numbers as a `Figure`, with its standard error. Two figures
make a `Contrast` (both in `estimate.py`), and `exact.py` and `timed.py` decide of each contrast
whether it is a `Change`. A `Comparison` has all changes of two measurements, and from them its
verdict (both in `model/comparison.py`). `matching.py` says before what may be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log2, sqrt
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.judge.causes import causes_of, enclosing, in_order, with_other_code
from pytest_schedprof.judge.estimate import ALPHA
from pytest_schedprof.judge.exact import exact_changes, of_other_graphs
from pytest_schedprof.judge.figures import Between, Measurement
from pytest_schedprof.judge.matching import (
    alike,
    are_whole_bodies,
    common_modules,
    differing_modules,
    differing_settings,
    is_reproduced,
    measurements,
    obstacle,
    obstacle_in_turns,
    obstacle_to_metric,
    obstacle_to_time,
    renamed_tests,
    tasks_of_rounds,
    too_few_samples,
)
from pytest_schedprof.judge.parting import part_by_hash
from pytest_schedprof.judge.series import LEAST_RUNS, counts_from, scatter_of_count, usual
from pytest_schedprof.judge.timed import LEAST_CPU_RISE, timed_changes
from pytest_schedprof.model.comparison import (
    Change,
    Comparison,
    Origin,
    Outcome,
    Report,
    Setting,
    Thresholds,
)
from pytest_schedprof.model.result import Result

Earlier: TypeAlias = Mapping[str, Sequence[Result]]
"""The results by test in the runs before the newest one of a series."""

Measurements: TypeAlias = Mapping[tuple[str, str], Sequence[Measurement]]
"""Those of one side by test and backend, the newest first."""


def compare(
    before: Mapping[str, Sequence[Result]],
    after: Mapping[str, Sequence[Result]],
    *,
    names: tuple[str, str] = ("before", "after"),
    earlier: Earlier | None = None,
) -> Report:
    """Compare all tests of two sets of results, and list the tests that only one set has.

    Args:
        before: the earlier results by test; those of a test are asked for when it is compared.
        after: the later results.
        names: of the two sets.
        earlier: the runs before the first set, if that is the newest run of a series.
    """
    old_ids, new_ids = set[str](), set[str]()
    comparisons: list[Comparison] = []
    for test_id in dict.fromkeys((*before, *after)):
        olds, news = (measurements(side.get(test_id, ())) for side in (before, after))
        is_old = bool(olds or (earlier and measurements(earlier.get(test_id, ()))))
        old_ids |= {test_id} if is_old else set()
        new_ids |= {test_id} if news else set()
        comparisons += _of_backends(test_id, olds, news, earlier) if is_old else ()
    unusable = {*after} - new_ids
    renamed = renamed_tests(old_ids - new_ids - unusable, new_ids - old_ids)
    for old, new in renamed:
        olds, news = measurements(before[old]), measurements(after[new])
        comparisons += _of_backends(old, olds, news, earlier)
    return Report(
        *names,
        tuple(sorted(comparisons, key=lambda comparison: (comparison.test_id, comparison.backend))),
        new=tuple(sorted(new_ids - old_ids - {new for _, new in renamed})),
        vanished=tuple(sorted(old_ids - new_ids - unusable - {old for old, _ in renamed})),
        renamed=tuple(renamed),
        unusable=tuple(sorted(unusable)),
        is_partial=not unusable.isdisjoint(old_ids),
    )


def _of_backends(
    old_id: str, olds: Measurements, news: Measurements, earlier: Earlier | None
) -> Iterator[Comparison]:
    for (_, backend), (newest, *_) in news.items():
        candidates = with_earlier(olds.get((old_id, backend), []), earlier, old_id, backend)
        yield compare_one(candidates, newest, is_series=earlier is not None)


def with_earlier(
    newest: Sequence[Measurement], earlier: Earlier | None, test_id: str, backend: str
) -> Sequence[Measurement]:
    """Return the measurements of a test in all runs of a series, the newest first."""
    if earlier is None:
        return newest
    return [*newest, *measurements(earlier.get(test_id, ())).get((test_id, backend), [])]


def compare_one(
    candidates: Sequence[Measurement],
    after: Measurement,
    *,
    is_binding: bool = True,
    is_series: bool = False,
) -> Comparison:
    """Compare a measurement with the newest comparable candidate, or say why there is none.

    Args:
        candidates: earlier measurements of the test, the newest first.
        is_binding: whether a regression fails the test.
        is_series: whether the candidates are runs of one series, which tell what is usual.
    """
    past = alike(candidates, after)[::-1] if is_series else []
    before, reason = (past[-1], "") if past else choose(candidates, after)
    if before is None:
        newest = candidates[0] if candidates else None
        return _not_compared(newest, after, reason, is_binding=is_binding)
    reason = obstacle_to_time(before, after) if after.backend.shares else ""
    known = past if is_series else None
    return _compared(before, after, reason, ALPHA, past=known, is_binding=is_binding)


def compare_in_turns(
    before: Measurement, after: Measurement, alpha: float, *, is_binding: bool = True
) -> Comparison:
    """Compare two sides of one session whose rounds were measured in turns.

    They have the same body. If one side makes other tasks of it, costs are compared per round.
    """
    if reason := obstacle_in_turns(before, after):
        comparison = _not_compared(before, after, reason, is_binding=is_binding)
        return replace(comparison, settings=_settings_that_differ(before, after))
    reason = too_few_samples(before, after) if after.backend.shares else ""
    return _compared(before, after, reason, alpha, in_turns=True, is_binding=is_binding)


def _not_compared(
    before: Measurement | None, after: Measurement, reason: str, *, is_binding: bool
) -> Comparison:
    return Comparison(
        after.result.test_id,
        after.backend.backend,
        after.backend.mode,
        changes=(),
        same=0,
        reasons=(reason,),
        is_binding=is_binding,
        parting=part_by_hash(before.backend.hashes, after.backend.hashes) if before else None,
    )


def _compared(
    before: Measurement,
    after: Measurement,
    reason: str,
    alpha: float,
    *,
    in_turns: bool = False,
    past: Sequence[Measurement] | None = None,
    is_binding: bool,
) -> Comparison:
    """Compare what is comparable; `reason` says why times are not, and is empty if they are.

    `past` are the earlier runs, the oldest first; None if they were not looked for.
    """
    # In turns one process builds the graphs of both sides, and some have another order then.
    is_exact = not in_turns and is_reproduced(before, after)
    known = past if past and len(past) >= LEAST_RUNS else ()
    has_one_body = in_turns or are_whole_bodies(before, after)
    tasks = tasks_of_rounds(before, after) if has_one_body else None
    old, new = (
        replace(
            side,
            is_reproduced=is_exact,
            modules=common_modules(before, after),
            between=_between(known) if known and not is_exact else None,
            is_per_round=tasks is not None,
        )
        for side in (before, after)
    )
    obstacles = {
        metric: obstacle_to_metric(metric, before, after, is_per_round=old.is_per_round)
        for metric in old.metrics
        if metric in new.metrics
    }
    free = [metric for metric, obstacle in obstacles.items() if not obstacle]
    exact = exact_changes(old, new, free)
    if old.is_virtual and new.is_virtual and not (is_exact or in_turns):
        certain = _of_other_code(old, new, free)
        exact = [
            certain.get((change.metric, change.subject)) or of_other_graphs(change)
            for change in exact
        ]
    timed: list[Change] = []
    if after.backend.shares and not reason:
        timed = timed_changes(old, new, alpha, in_turns=in_turns, past=known)
    causes = causes_of(old, new, exact)
    changes = [change for change in (*exact, *timed) if change.outcome is not Outcome.SAME]
    return Comparison(
        after.result.test_id,
        after.backend.backend,
        after.backend.mode,
        changes=tuple(in_order(changes, causes)),
        same=len(exact) + len(timed) - len(changes),
        reasons=tuple(dict.fromkeys(filter(None, [*obstacles.values(), reason]))),
        is_binding=is_binding,
        settings=_settings_that_differ(before, after),
        parting=part_by_hash(before.backend.hashes, after.backend.hashes),
        # Figures that are the same in each run need none.
        thresholds=None if is_exact and not timed else _thresholds(past, len(timed)),
        tasks=tasks,
        causes=causes,
        wholes=tuple(change for change in (*exact, *timed) if not change.subject),
    )


def _settings_that_differ(before: Measurement, after: Measurement) -> tuple[Setting, ...]:
    return (*differing_settings(before.result, after.result), *differing_modules(before, after))


def _of_other_code(
    before: Measurement, after: Measurement, metrics: Sequence[str]
) -> dict[tuple[str, str], Change]:
    """Return the changes of functions whose code differs: other graphs are not their cause."""
    functions = with_other_code(before, after)
    old, new = (replace(side, is_reproduced=True) for side in (before, after))
    return {
        (change.metric, change.subject): change
        for change in exact_changes(old, new, metrics)
        if enclosing(change.subject) in functions
    }


def _between(past: Sequence[Measurement]) -> Between:
    """Return what tells how much a count per task varies between runs."""
    counts: dict[str, list[dict[str, float]]] = {}

    def scatter(metric: str, subject: str) -> float:
        if metric not in counts:
            counts[metric] = [_counts(run, metric) for run in past]
        return scatter_of_count([of_run.get(subject, 0.0) for of_run in counts[metric]])

    return scatter


def _counts(run: Measurement, metric: str) -> dict[str, float]:
    """Return the counts per task of every function, and of the whole as the empty name."""
    whole = run.whole(metric)
    functions = {**(run.folded(metric) or {}), **run.exact(metric)}
    figures = {**functions, **({"": whole} if whole else {})}
    return {name: figure.value for name, figure in figures.items()}


def _thresholds(past: Sequence[Measurement] | None, timed: int) -> Thresholds:
    """Return the origin of the thresholds.

    Args:
        past: the earlier runs, None if they were not looked for.
        timed: number of figures that were judged together by statistical tests.
    """
    runs = None if past is None else len(past)
    if past is None or len(past) < LEAST_RUNS:
        return Thresholds(Origin.CONSTANTS, runs)
    values = [run.cpu.value for run in past]
    level = usual(values)
    if not (timed and level.value):
        return Thresholds(Origin.PAST, runs)
    rise = counts_from(level, sqrt(ALPHA / timed)) / level.value
    return Thresholds(Origin.PAST, runs, max(rise, LEAST_CPU_RISE))


def choose(candidates: Sequence[Measurement], after: Measurement) -> tuple[Measurement | None, str]:
    """Return the newest comparable candidate, or None and why the newest is not comparable.

    One with the same settings comes before newer ones with others.
    """
    if not candidates:
        return None, f"the baseline has nothing of {after.backend.backend} for it"
    fitting = [before for before in candidates if not obstacle(before, after)]
    same = (side for side in fitting if not differing_settings(side.result, after.result))
    if nearest := next(same, None) or next(iter(fitting), None):
        return nearest, ""
    return None, obstacle(candidates[0], after)


T = TypeVar("T")


class InterimChecks(Struct, frozen=True):
    """Interim checks of one test."""

    first_check: int
    """Pairs of rounds before the first check; fewer cannot show the scatter."""
    budget_s: float

    @staticmethod
    def order(sides: Sequence[T], pair: int) -> Iterator[T]:
        """Order the sides as A B, B A, A B, ..., so that drift affects both alike."""
        return iter(sides) if pair % 2 else reversed(sides)

    def is_due(self, pairs: int) -> bool:
        times, rest = divmod(pairs, self.first_check)
        return times > 0 and not rest and not times & (times - 1)  # a power of two

    def has_time_for_more(self, pairs: int, elapsed_s: float) -> bool:
        """Whether another pair fits into the budget."""
        return elapsed_s * (pairs + 1) <= self.budget_s * pairs

    def alpha(self, pairs: int, elapsed_s: float) -> float:
        """Return the rate of false alarms of one check: the checks within the budget share it."""
        most = max(pairs, int(self.budget_s * pairs / max(elapsed_s, 1e-3)))
        checks = 1 + max(0, ceil(log2(most / self.first_check)))
        return ALPHA / checks
