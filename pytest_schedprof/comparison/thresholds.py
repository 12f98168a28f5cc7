"""Where the thresholds of a comparison come from."""

from __future__ import annotations

from math import sqrt

from pytest_schedprof.analysis.usual import counts_from
from pytest_schedprof.comparison.figures import Figures
from pytest_schedprof.comparison.past import Past
from pytest_schedprof.comparison.policy import Policy
from pytest_schedprof.model.comparison import Origin, Thresholds


def thresholds_of(
    after: Figures, past: Past | None, policy: Policy, timed: int
) -> Thresholds | None:
    """Return the origin of the thresholds; None if all figures are the same in each run.

    Args:
        after: figures that were judged.
        past: the earlier runs, None if they were not looked for.
        policy: how certain a change must be.
        timed: number of figures that were judged together by statistical tests.
    """
    if after.is_reproduced and not timed:
        return None
    runs = None if past is None else len(past.runs)
    if past is None or not past.is_long_enough:
        return Thresholds(Origin.CONSTANTS, runs)
    if not timed or not past.cpu.level:
        return Thresholds(Origin.PAST, runs)
    rise = counts_from(past.cpu, sqrt(policy.alpha / timed)) / past.cpu.level
    scatter = past.cpu.scatter / past.cpu.level
    return Thresholds(Origin.PAST, runs, scatter, max(rise, policy.least_cpu_rise))
