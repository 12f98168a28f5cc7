"""Series of the last runs alone, made of run.json, which is small: for a glance at the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pytest_schedprof.analysis.history import amounts_of
from pytest_schedprof.model.result import WHOLE, BackendResult, Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.model.verdict import Verdict

FEWEST = 3
"""Figures that are worth a glance."""

TELLING = ("cpu", "bytecodes", "peak", "calls")
"""One metric for each backend: the first of these that it has."""

Figures: TypeAlias = Mapping[str, Mapping[str, float]]
"""Of the scheduler as a whole: by backend and metric."""

Recent: TypeAlias = Mapping[tuple[str, str], tuple[str, Sequence[float]]]
"""A metric and its figures, by test and backend, with its mode."""


def figures_of(result: Result) -> dict[str, dict[str, float]]:
    """What a test cost the scheduler as a whole."""
    return {label_of(each): _whole(each) for each in result.backends}


def label_of(backend: BackendResult) -> str:
    """A backend, with options that change what its figures mean."""
    return f"{backend.backend} ({backend.mode})" if backend.mode else backend.backend


def _whole(backend: BackendResult) -> dict[str, float]:
    found = amounts_of(backend)
    return {metric: amount.value for (metric, subject), amount in found if not subject}


def setting_of(result: Result) -> str:
    """What else must be the same for figures to be of one series; in words."""
    words = []
    if cluster := result.cluster:
        words.append(f"{cluster.kind} cluster of {cluster.workers}")
    if environment := result.environment:
        words += [f"Python {environment.minor_python}", environment.scheduler_machine]
    for scales in {each.window.scales for each in result.backends} - {()}:
        words.append(f"scales {', '.join(map(str, scales))}")
    return ", ".join(filter(None, words))


def recent_series(runs: Sequence[Run]) -> Recent:
    """Of the tests of the last run, over all before that measured them in the same way.

    Args:
        runs: the last one last.
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
    """As for baselines: what failed for another reason than a limit did not do its work."""
    return entry.outcome in WHOLE or entry.verdict is Verdict.FAIL


def _telling(found: Sequence[Mapping[str, float]]) -> tuple[str, Sequence[float]]:
    metric = next((name for name in TELLING if name in found[-1]), "")
    return metric, [figures[metric] for figures in found if metric in figures]
