"""Explain the steps of a history by the runs on both sides of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.explaining.sides import explanations, side_in
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.history import Series
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.storage.runs import KeptRun, runs_in


def why_stepped(series: Iterable[Series], place: Path) -> Iterator[Explanation]:
    """Explain each step of the scheduler as a whole, the newest of each series first.

    Runs that are not kept at this place, or cannot be read, are left out.
    """
    kept = {each.record.run_id: each for each in runs_in(place)}
    for each in series:
        if each.subject or not METRICS[each.metric].is_divided:
            continue
        for step in reversed(each.course.steps):
            ids = (each.figures[at].moment.run_id for at in (step.at - 1, step.at))
            before, after = map(kept.get, ids)
            if before and after:
                yield from _between(before, after, each)


def _between(before: KeptRun, after: KeptRun, series: Series) -> Iterator[Explanation]:
    with suppress(SchedprofError):
        test_id = series.setting.test_id
        pair = (side_in(before.test(test_id).path), side_in(after.test(test_id).path))
        found = explanations(pair, series.metric)
        yield from (each for each in found if each.backend == series.setting.backend)
