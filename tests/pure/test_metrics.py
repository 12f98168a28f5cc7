"""The table of metrics: no other module lists them, and the lists that were follow from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest_schedprof
from pytest_schedprof.backends.registry import BUILTIN, BackendRegistry
from pytest_schedprof.evidence import KINDS
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.metric import (
    ANY_KIND,
    DECISIONS,
    GROWING,
    GROWTH,
    HELD,
    INCLUSIVE,
    METRICS,
    PERCENT,
    RANKED,
    TRAFFIC,
    Of,
    own_part,
)

PACKAGE = Path(pytest_schedprof.__file__).parent

NAMES = frozenset(name for name in METRICS if not METRICS[name].evidence) | frozenset(INCLUSIVE)
"""The metrics of backends, and the names that costs have for functions' own parts. The metrics of
evidence are common words, as `memory`."""

MEASURING_ROOMS = ("backends", "agent", "formats", "virtual", "evidence")
"""Rooms whose modules measure metrics, or read what was measured, by name."""

TABLE = "model/metric.py"

OTHER_WORDS = {
    ("measuring/assessment.py", "cpu"): "the scheduler itself counts it, whatever the backend",
    ("measuring/assessment.py", "transitions"): "the scheduler itself counts it, too",
    ("judge/shares.py", "blocks"): "units of inference, stretches of a window",
    ("measuring/recorder.py", "cpu"): "a fact of the agent, about the process",
    ("measuring/recorder.py", "transitions"): "a fact of the agent, a counter of the scheduler",
    ("clusters/in_process.py", "transitions"): "a counter of schedulers in this process",
    ("judge/owners.py", "transitions"): "an owner",
    ("judge/owners.py", "idle"): "an owner, of samples that waited",
    ("model/result.py", "idle"): "that owner",
    ("measuring/ancestor.py", "idle"): "an option of py-spy",
    ("model/evidence.py", "transitions"): "a step of graph intake",
    ("report/ledger.py", "cpu"): "how limits write the metrics of steps",
    ("report/ledger.py", "calls"): "the same",
    ("report/tables.py", "self"): "the heading of a column",
}
"""Literals that are spelled like a metric: where, and what they are instead."""


def strings_of(source: str) -> Iterator[str]:
    """Yield every string constant that is a whole expression, in code and not in f-strings."""
    tree = ast.parse(source)
    parts = {
        id(part)
        for inner in ast.walk(tree)
        if isinstance(inner, ast.JoinedStr)
        for part in inner.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def metrics_named() -> set[tuple[str, str]]:
    """Return each module, outside of the rooms that measure, with the metrics that it names."""
    names = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name != TABLE and not name.startswith(MEASURING_ROOMS):
            names |= {(name, text) for text in strings_of(path.read_text()) if text in NAMES}
    return names


def test_no_other_module_names_a_metric() -> None:
    assert metrics_named() == set(OTHER_WORDS)


def test_literals_are_found_wherever_they_are() -> None:
    source = (
        'A = {"calls": 1}\ndef f(x="peak"):\n    """cpu"""\n    return f"share {x}" + x["leaked"]'
    )
    assert NAMES & set(strings_of(source)) == {"calls", "peak", "leaked", "cpu"}


def test_ranks_are_distinct_and_in_order() -> None:
    ranks = [METRICS[name].rank for name in RANKED]
    assert ranks == list(range(1, len(ranks) + 1))


def test_rows_agree_with_each_other() -> None:
    for name, metric in METRICS.items():
        assert not (metric.is_exact and metric.is_sampled), name
        assert (metric.is_exact and metric.is_peak) == (name in DECISIONS | HELD), name
        assert metric.is_exact or name not in TRAFFIC, name
        assert Of.CLIENT not in metric.of or Of.OWNERS in metric.of, name
        assert (metric.units is PERCENT) <= (metric.is_sampled or metric.is_peak), name
        assert (name in GROWING) == (metric.units is not PERCENT and name != GROWTH), name
        assert INCLUSIVE.get(own_part(name), name) == name


def test_every_metric_is_measured_or_made_of_another() -> None:
    backends = [BackendRegistry().make(name, rate_hz=100, options={}) for name in BUILTIN]
    measured = {metric for backend in backends for metric in backend.metrics}
    of_evidence = {name for name, metric in METRICS.items() if metric.evidence}
    assert not measured & of_evidence
    assert measured | of_evidence | {GROWTH} == set(METRICS)


def test_kinds_of_evidence_that_limits_need_exist() -> None:
    assert {metric.evidence for metric in METRICS.values()} <= {"", ANY_KIND, *KINDS}


def test_the_grammar_takes_every_metric() -> None:
    for name, metric in METRICS.items():
        bound = "30%" if metric.units is PERCENT else f"6.1{min(metric.units, key=len)}"
        subject = "" if Of.WHOLE in metric.of else f"({metric.example})"
        text = f"{name}{f'({GROWING[0]})' if name == GROWTH else subject} <= {bound}"
        assert parse_limit(text).metric == name
