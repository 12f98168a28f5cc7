"""The tables of backends, kinds of clusters and metrics: no other module lists them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest_schedprof
from pytest_schedprof.backends.registry import BUILTIN, BackendRegistry
from pytest_schedprof.clusters import DEFAULT, class_of, option_names
from pytest_schedprof.clusters import KINDS as CLUSTERS
from pytest_schedprof.evidence import KINDS
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.measuring.options import option_named
from pytest_schedprof.measuring.settings import read_value
from pytest_schedprof.model.metric import (
    ANY_KIND,
    DECISIONS,
    GROWING,
    GROWTH,
    INCLUSIVE,
    METRICS,
    PERCENT,
    RANKED,
    TRAFFIC,
    Subject,
    own_part,
)
from pytest_schedprof.virtual.behaviour import TRAITS

PACKAGE = Path(pytest_schedprof.__file__).parent
ROOMS_OF_BACKENDS = {"agent", "backends"}

ALLOWED = {
    "measuring/ancestor.py": {"pyspy", "viztracer"},  # public functions, an option of py-spy
    "measuring/profile.py": {"pyspy"},  # the default of a public function
    "measuring/options.py": {"pyspy", "counts"},  # the defaults of commands and options
    "judge/owners.py": {"viztracer"},  # functions of that package belong to the profiler
    "judge/accounts.py": {"counts"},  # whose files are read
    "formats/counted.py": {"counts", "decisions"},  # whose files are read
    "formats/chrometrace.py": {"viztracer"},  # whose format is read
    "formats/workload.py": {"counts"},  # a column of a file
    "replay/hearing.py": {"counts"},  # that column
}
"""Names in text that is no list of backends, by file, with the reason. Metrics may have names of
backends in their own table."""

ENGLISH = {"counts", "decisions", "instructions", "stalls"}
"""Names that are words of English too: meant where they stand alone or are part of syntax."""

TEXTS_OF_HELP = ("EXAMPLE", "MARKER_HELP")


def illustrations(tree: ast.Module) -> Iterator[ast.expr]:
    """Docstrings, help of options, and examples of a command's help: they only illustrate."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield node.value
        if isinstance(node, ast.keyword) and node.arg == "help":
            yield node.value
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in TEXTS_OF_HELP:
            yield node.value


def names_in(source: str) -> set[str]:
    """Backends that string literals name, but for those that only illustrate."""
    if not any(name in source for name in BUILTIN):
        return set()
    tree = ast.parse(source)
    left_out = {id(part) for expression in illustrations(tree) for part in ast.walk(expression)}
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in left_out
        for name in BUILTIN
        if name in node.value and is_named(name, node.value)
    }


def is_named(name: str, text: str) -> bool:
    if name in ENGLISH:
        return bool(re.search(rf"(^|[,.'\"=(]){name}($|[,.'\"=)])", text))
    return bool(re.search(rf"\b{name}\b", text))


def test_no_other_room_names_a_backend() -> None:
    named = {}
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE)
        if module.parts[0] not in ROOMS_OF_BACKENDS:
            named[module.as_posix()] = names_in(path.read_text(encoding="utf-8"))
    named[TABLE] -= METRICS.keys()
    naming = {name: backends for name, backends in named.items() if backends}
    assert naming == ALLOWED, (
        "only its own files name a backend: use what it declares, or rename it, or add it to "
        "ALLOWED with the reason, or to ENGLISH if it is a word of English"
    )


NAMES = frozenset(name for name in METRICS if not METRICS[name].evidence) | frozenset(INCLUSIVE)
"""The metrics of backends, and the names that costs have for functions' own parts. The metrics of
evidence are common words, as `memory`."""

MEASURING_ROOMS = ("backends", "agent", "formats", "virtual", "evidence")
"""Rooms whose modules measure metrics, or read what was measured, by name."""

TABLE = "model/metric.py"

OTHER_WORDS = {
    ("measuring/assessment.py", "cpu"): "the scheduler itself counts it, whatever the backend",
    ("measuring/assessment.py", "transitions"): "the scheduler itself counts it, too",
    ("measuring/recorder.py", "cpu"): "a fact of the agent, about the process",
    ("measuring/recorder.py", "transitions"): "a fact of the agent, a counter of the scheduler",
    ("clusters/in_process.py", "transitions"): "a counter of schedulers in this process",
    ("judge/owners.py", "transitions"): "an owner",
    ("judge/owners.py", "idle"): "an owner, of samples that waited",
    ("model/result.py", "idle"): "that owner",
    ("measuring/ancestor.py", "idle"): "an option of py-spy",
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


def test_no_other_module_names_a_metric() -> None:
    named = set()
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).as_posix()
        if module != TABLE and not module.startswith(MEASURING_ROOMS):
            named |= {(module, text) for text in strings_of(path.read_text()) if text in NAMES}
    assert named == set(OTHER_WORDS), (
        "only model/metric.py and the rooms that measure name a metric: use its constant; what is "
        "only spelled like it, rename it, or add it to OTHER_WORDS"
    )


def test_ranks_are_distinct_and_in_order() -> None:
    ranks = [METRICS[name].rank for name in RANKED]
    assert ranks == list(range(1, len(ranks) + 1))


def test_rows_agree_with_each_other() -> None:
    for name, metric in METRICS.items():
        assert not (metric.is_exact and metric.is_sampled), name
        assert (metric.is_exact and metric.is_peak) == (name in DECISIONS), name
        assert metric.is_exact or name not in TRAFFIC, name
        assert Subject.CLIENT not in metric.subjects or Subject.OWNERS in metric.subjects, name
        assert (metric.units is PERCENT) <= (metric.is_sampled or metric.is_peak), name
        assert (name in GROWING) == (metric.units is not PERCENT and name != GROWTH), name
        assert INCLUSIVE.get(own_part(name), name) == name


def test_every_metric_is_measured_or_made_of_another() -> None:
    backends = [BackendRegistry().make(name, rate_hz=100, options={}) for name in BUILTIN]
    measured = {metric for backend in backends for metric in backend.metrics}
    of_evidence = {name for name, metric in METRICS.items() if metric.evidence}
    assert not measured & of_evidence, "rename it: a backend and a kind of evidence measure it"
    assert measured | of_evidence | {GROWTH} == set(METRICS), (
        "a backend needs each metric in `measures`, and METRICS needs each that a backend measures"
    )


def test_kinds_of_evidence_that_limits_need_exist() -> None:
    assert {metric.evidence for metric in METRICS.values()} <= {"", ANY_KIND, *KINDS}


def test_the_grammar_takes_every_metric() -> None:
    for name, metric in METRICS.items():
        bound = "30%" if metric.units is PERCENT else f"6.1{min(metric.units, key=len)}"
        subject = "" if Subject.WHOLE in metric.subjects else f"({metric.example})"
        text = f"{name}{f'({GROWING[0]})' if name == GROWTH else subject} <= {bound}"
        assert parse_limit(text).metric == name


def test_options_of_hollow_workers_are_options_of_the_simulated_kind() -> None:
    assert set(TRAITS) < set(option_names("simulated"))
    assert option_names("tcp://127.0.0.1:8786") == ()


def test_the_option_takes_every_kind_and_describes_it() -> None:
    option = option_named("cluster")
    assert option.default == DEFAULT
    for name, kind in CLUSTERS.items():
        assert read_value("cluster", name, "a test") == name
        assert repr(name) in option.help
        assert kind.description in option.help


def test_every_kind_of_cluster_has_a_class_of_that_kind() -> None:
    for name in CLUSTERS:
        cluster: Any = class_of(name)
        assert not inspect.isabstract(cluster), name
        assert (cluster.kind, cluster.is_ours) == (name, True)
