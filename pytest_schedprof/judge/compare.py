"""Compare two sets of results, test by test and backend by backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import TypeAlias, TypeVar

from pytest_schedprof.judge.causes import causes_of, in_order
from pytest_schedprof.judge.contrast import DEFAULT_POLICY, Policy
from pytest_schedprof.judge.exact import exact_changes
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.matching import (
    common_modules,
    differing_modules,
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
from pytest_schedprof.judge.past import Past, alike, differing_settings, thresholds_of
from pytest_schedprof.judge.timed import timed_changes
from pytest_schedprof.model.comparison import (
    Change,
    Comparison,
    Outcome,
    Report,
    Setting,
    Thresholds,
)
from pytest_schedprof.model.explanation import Cause
from pytest_schedprof.model.result import Result

Earlier: TypeAlias = Callable[[str], Sequence[Result]]
"""Reads the results of a test in the runs before the newest one of a series."""


def compare(
    before: Sequence[Result],
    after: Sequence[Result],
    policy: Policy = DEFAULT_POLICY,
    *,
    names: tuple[str, str] = ("before", "after"),
    earlier: Earlier | None = None,
) -> Report:
    """Compare all tests of two sets of results, and list the tests that only one set has.

    Args:
        before: one set.
        after: the other.
        policy: how large and how certain a change must be.
        names: of the two sets.
        earlier: the runs before the first set, if that is the newest run of a series.
    """
    olds, news = measurements(before), measurements(after)
    old_ids, new_ids = {key[0] for key in olds}, {key[0] for key in news}
    unusable = {result.test_id for result in after} - new_ids
    renamed = renamed_tests(old_ids - new_ids - unusable, new_ids - old_ids)
    origin = {new: old for old, new in renamed}
    comparisons = [
        compare_one(
            with_earlier(olds.get((old_id, backend), []), earlier, old_id, backend),
            found[0],
            policy,
            is_series=earlier is not None,
        )
        for (test_id, backend), found in sorted(news.items())
        if (old_id := origin.get(test_id, test_id)) in old_ids
    ]
    return Report(
        *names,
        tuple(comparisons),
        new=tuple(sorted(new_ids - old_ids - origin.keys())),
        vanished=tuple(sorted(old_ids - new_ids - unusable - set(origin.values()))),
        renamed=tuple(renamed),
        unusable=tuple(sorted(unusable)),
    )


def with_earlier(
    newest: Sequence[Measurement], earlier: Earlier | None, test_id: str, backend: str
) -> Sequence[Measurement]:
    """Return the measurements of a test in all runs of a series, the newest first."""
    if earlier is None:
        return newest
    return [*newest, *measurements(earlier(test_id)).get((test_id, backend), [])]


def compare_one(
    candidates: Sequence[Measurement],
    after: Measurement,
    policy: Policy = DEFAULT_POLICY,
    *,
    is_binding: bool = True,
    is_series: bool = False,
) -> Comparison:
    """Compare a measurement with the newest comparable candidate, or say why there is none.

    Args:
        candidates: earlier measurements of the test, the newest first.
        after: what is to be judged.
        policy: how large and how certain a change must be.
        is_binding: whether a regression fails the test.
        is_series: whether the candidates are runs of one series, which tell what is usual.
    """
    earlier = alike(candidates, after) if is_series else []
    before, reason = (earlier[0], "") if earlier else choose(candidates, after)
    if before is None:
        newest = candidates[0] if candidates else None
        return _comparison(newest, after, [], [reason], is_binding)
    reason = obstacle_to_time(before, after) if after.of.shares else ""
    past = Past(tuple(reversed(earlier))) if is_series else None
    return _compare_pair(before, after, policy, reason, past=past, is_binding=is_binding)


def compare_in_turns(
    before: Measurement, after: Measurement, policy: Policy, *, is_binding: bool = True
) -> Comparison:
    """Compare two sides of one session whose rounds were measured in turns.

    They have the same body. If one side makes other tasks of it, costs are compared per round.
    """
    if reason := obstacle_in_turns(before, after):
        settings = _settings_that_differ(before, after)
        return _comparison(before, after, [], [reason], is_binding, settings)
    reason = too_few_samples(before, after) if after.of.shares else ""
    return _compare_pair(before, after, policy, reason, in_turns=True, is_binding=is_binding)


def _compare_pair(
    before: Measurement,
    after: Measurement,
    policy: Policy,
    reason: str,
    *,
    in_turns: bool = False,
    past: Past | None = None,
    is_binding: bool,
) -> Comparison:
    """Compare what is comparable; `reason` says why times are not, and is empty if they are."""
    # In turns one process builds the graphs of both sides, and some have another order then.
    is_exact = not in_turns and is_reproduced(before, after)
    known = past if past and past.is_long_enough else None
    between = known.between if known and not is_exact else None
    modules = common_modules(before, after)
    tasks = tasks_of_rounds(before, after) if in_turns else None
    is_per_round = tasks is not None
    old, new = (
        replace(
            side,
            is_reproduced=is_exact,
            modules=modules,
            between=between,
            is_per_round=is_per_round,
        )
        for side in (before, after)
    )
    obstacles = {
        metric: obstacle_to_metric(metric, before, after, is_per_round=is_per_round)
        for metric in old.metrics
        if metric in new.metrics
    }
    free = [metric for metric, obstacle in obstacles.items() if not obstacle]
    changes = exact_changes(old, new, policy, free)
    timed: list[Change] = []
    if after.of.shares and not reason:
        timed = timed_changes(old, new, policy, in_turns=in_turns, past=known)
    thresholds = thresholds_of(new, past, policy, len(timed))
    reasons = list(dict.fromkeys(filter(None, [*obstacles.values(), reason])))
    settings = _settings_that_differ(before, after)
    every = [*changes, *timed]
    causes = causes_of(old, new, changes)
    found = _comparison(before, after, every, reasons, is_binding, settings, thresholds, causes)
    return replace(found, tasks=tasks)


def _settings_that_differ(before: Measurement, after: Measurement) -> tuple[Setting, ...]:
    return (
        *differing_settings(before.result, after.result),
        *differing_modules(before, after),
    )


def _comparison(
    before: Measurement | None,
    after: Measurement,
    changes: Sequence[Change],
    reasons: Sequence[str],
    is_binding: bool,
    settings: tuple[Setting, ...] = (),
    thresholds: Thresholds | None = None,
    causes: tuple[Cause, ...] = (),
) -> Comparison:
    """Collect the changes, the most severe first."""
    told = in_order((each for each in changes if each.outcome is not Outcome.SAME), causes)
    return Comparison(
        after.result.test_id,
        after.of.backend,
        after.of.mode,
        tuple(told),
        len(changes) - len(told),
        tuple(reasons),
        is_binding,
        settings,
        part_by_hash(before.of.hashes, after.of.hashes) if before else None,
        thresholds,
        causes=causes,
    )


def choose(candidates: Sequence[Measurement], after: Measurement) -> tuple[Measurement | None, str]:
    """Return the newest comparable candidate, or None and why the newest is not comparable.

    One with the same settings comes before newer ones with others.
    """
    if not candidates:
        return None, f"the baseline has nothing of {after.of.backend} for it"
    fitting = [before for before in candidates if not obstacle(before, after)]
    alike = (each for each in fitting if not differing_settings(each.result, after.result))
    if found := next(alike, None) or next(iter(fitting), None):
        return found, ""
    return None, obstacle(candidates[0], after)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InterimChecks:
    """Interim checks of one test."""

    first_check: int
    """Pairs of rounds before the first check; fewer cannot show the scatter."""
    budget_s: float

    @staticmethod
    def order(sides: Sequence[T], pair: int) -> Iterator[T]:
        """Order the sides as A B, B A, A B, ..., so that drift affects both alike."""
        return iter(sides) if pair % 2 else reversed(sides)

    def is_due(self, pairs: int) -> bool:
        """Whether a check is due after so many pairs."""
        times, rest = divmod(pairs, self.first_check)
        return times > 0 and not rest and not times & (times - 1)  # a power of two

    def has_time_for_more(self, pairs: int, elapsed_s: float) -> bool:
        """Whether another pair fits into the budget."""
        return elapsed_s * (pairs + 1) <= self.budget_s * pairs

    def policy(self, policy: Policy, pairs: int, elapsed_s: float) -> Policy:
        """Return the policy of one check: alpha is divided by the checks within the budget."""
        most = max(pairs, int(self.budget_s * pairs / max(elapsed_s, 1e-3)))
        checks = 1 + max(0, ceil(log2(most / self.first_check)))
        return replace(policy, alpha=policy.alpha / checks)
