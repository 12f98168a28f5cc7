"""Series of the last few runs for the terminal, read from the small run.json files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pytest_schedprof.analysis.series import amounts_of
from pytest_schedprof.model.metric import RANKED
from pytest_schedprof.model.result import WHOLE, BackendResult, Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.model.verdict import Verdict

FEWEST = 3
"""Smallest number of figures that is shown."""

Figures: TypeAlias = Mapping[str, Mapping[str, float]]
"""Figures of the scheduler as a whole, by backend and metric."""

Recent: TypeAlias = Mapping[tuple[str, str], tuple[str, Sequence[float]]]
"""A metric and its figures, by test and backend (with its mode)."""


def figures_of(result: Result) -> dict[str, dict[str, float]]:
    """Return the figures of the scheduler as a whole in a test."""
    return {label_of(each): _whole(each) for each in result.backends}


def label_of(backend: BackendResult) -> str:
    """Return the backend's name, with options that change what its figures mean."""
    return f"{backend.backend} ({backend.mode})" if backend.mode else backend.backend


def _whole(backend: BackendResult) -> dict[str, float]:
    found = amounts_of(backend)
    return {metric: amount.value for (metric, subject), amount in found if not subject}


def recent_series(runs: Sequence[Run]) -> Recent:
    """Return the series of the tests of the last run, over the runs with the same setting.

    Args:
        runs: in order of time.
    """
    if not runs:
        return {}
    found: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    settings = {each.test_id: each.setting for each in runs[-1].tests}
    for run in runs:
        for entry in run.tests:
            if _is_worth_it(entry) and settings.get(entry.test_id) == entry.setting:
                for backend, figures in entry.figures.items():
                    found.setdefault((entry.test_id, backend), []).append(figures)
    series = {key: _telling(figures) for key, figures in found.items()}
    return {key: each for key, each in series.items() if len(each[1]) >= FEWEST}


def _is_worth_it(entry: TestEntry) -> bool:
    """Whether the test did its work: it passed, or failed by a limit only."""
    return entry.outcome in WHOLE or entry.verdict is Verdict.FAIL


def _telling(found: Sequence[Mapping[str, float]]) -> tuple[str, Sequence[float]]:
    metric = next((name for name in RANKED if name in found[-1]), "")
    return metric, [figures[metric] for figures in found if metric in figures]
