"""Compare two sets of results, test by test and backend by backend."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_schedprof.comparison.differing import differing_settings
from pytest_schedprof.comparison.exact import exact_changes
from pytest_schedprof.comparison.matching import (
    Measurement,
    common_modules,
    differing_modules,
    is_reproduced,
    measurements,
    obstacle,
    obstacle_in_turns,
    obstacle_to_metric,
    obstacle_to_time,
    obstacle_to_time_in_turns,
    renamed_tests,
)
from pytest_schedprof.comparison.parting import part_by_hash
from pytest_schedprof.comparison.policy import DEFAULT_POLICY, Policy
from pytest_schedprof.comparison.timed import timed_changes
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report, Setting
from pytest_schedprof.model.result import Result

_ORDER = list(Outcome)


def compare(
    before: Sequence[Result],
    after: Sequence[Result],
    policy: Policy = DEFAULT_POLICY,
    *,
    names: tuple[str, str] = ("before", "after"),
) -> Report:
    """Compare all tests of two sets of results, and list the tests that only one set has."""
    olds, news = measurements(before), measurements(after)
    old_ids, new_ids = {key[0] for key in olds}, {key[0] for key in news}
    unusable = {result.test_id for result in after} - new_ids
    renamed = renamed_tests(old_ids - new_ids - unusable, new_ids - old_ids)
    origin = {new: old for old, new in renamed}
    comparisons = [
        compare_one(olds.get((origin.get(test_id, test_id), backend), []), found[0], policy)
        for (test_id, backend), found in sorted(news.items())
        if origin.get(test_id, test_id) in old_ids
    ]
    return Report(
        *names,
        tuple(comparisons),
        new=tuple(sorted(new_ids - old_ids - origin.keys())),
        vanished=tuple(sorted(old_ids - new_ids - unusable - set(origin.values()))),
        renamed=tuple(renamed),
        unusable=tuple(sorted(unusable)),
    )


def compare_one(
    candidates: Sequence[Measurement],
    after: Measurement,
    policy: Policy = DEFAULT_POLICY,
    *,
    is_binding: bool = True,
) -> Comparison:
    """Compare a measurement with the newest comparable candidate, or say why there is none."""
    before, reason = choose(candidates, after)
    if before is None:
        newest = candidates[0] if candidates else None
        return _comparison(newest, after, [], [reason], is_binding)
    reason = obstacle_to_time(before, after) if after.of.shares else ""
    return _compare_pair(before, after, policy, reason, is_binding=is_binding)


def compare_in_turns(
    before: Measurement, after: Measurement, policy: Policy, *, is_binding: bool = True
) -> Comparison:
    """Compare two sides of one session whose rounds were measured in turns."""
    if reason := obstacle_in_turns(before, after):
        return _comparison(before, after, [], [reason], is_binding)
    reason = obstacle_to_time_in_turns(before, after) if after.of.shares else ""
    return _compare_pair(before, after, policy, reason, in_turns=True, is_binding=is_binding)


def _compare_pair(
    before: Measurement,
    after: Measurement,
    policy: Policy,
    reason: str,
    *,
    in_turns: bool = False,
    is_binding: bool,
) -> Comparison:
    """Compare what is comparable; `reason` says why times are not, and is empty if they are."""
    # In turns one process builds the graphs of both sides, and some have another order then.
    is_exact = not in_turns and is_reproduced(before, after)
    modules = common_modules(before, after)
    old, new = (
        side.figures(policy.calibrations, is_reproduced=is_exact, modules=modules)
        for side in (before, after)
    )
    obstacles = {
        metric: obstacle_to_metric(metric, before, after)
        for metric in old.metrics
        if metric in new.metrics
    }
    free = [metric for metric, obstacle in obstacles.items() if not obstacle]
    changes = exact_changes(old, new, policy, free)
    if after.of.shares and not reason:
        changes += timed_changes(old, new, policy, in_turns=in_turns)
    reasons = list(dict.fromkeys(filter(None, [*obstacles.values(), reason])))
    settings = (
        *differing_settings(before.result, after.result),
        *differing_modules(before, after),
    )
    return _comparison(before, after, changes, reasons, is_binding, settings)


def _comparison(
    before: Measurement | None,
    after: Measurement,
    changes: Sequence[Change],
    reasons: Sequence[str],
    is_binding: bool,
    settings: tuple[Setting, ...] = (),
) -> Comparison:
    """Collect the changes, the most severe first."""
    told = sorted((each for each in changes if each.outcome is not Outcome.SAME), key=_gravity)
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


def _gravity(change: Change) -> tuple[int, bool, float, str]:
    """Sort key: by outcome, functions before the whole, then by size of the change."""
    is_whole = not change.subject
    return _ORDER.index(change.outcome), is_whole, -abs(change.difference), change.subject
