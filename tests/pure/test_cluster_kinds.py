"""The table of cluster kinds: every row has its class, and the lists that were are derived."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_schedprof.clusters import DEFAULT, KINDS, ClusterKind, class_of, option_names
from pytest_schedprof.measuring.options import option_named
from pytest_schedprof.measuring.settings import read_value
from pytest_schedprof.virtual.behaviour import TRAITS


def wrong_rows(rows: Mapping[str, ClusterKind], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of rows whose class is of another kind, cannot be made, or is not ours."""
    wrong = []
    for name, row in rows.items():
        monkeypatch.setitem(KINDS, name, row)
        cluster: Any = class_of(name)
        if inspect.isabstract(cluster) or cluster.kind != name or cluster.is_ours is not True:
            wrong.append(name)
    return wrong


def test_every_row_has_a_class_of_that_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong_rows(dict(KINDS), monkeypatch) == []


@pytest.mark.parametrize("name", ["own:LocalProcesses", "own:OwnCluster"])
def test_a_bogus_row_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ClusterKind(f"pytest_schedprof.clusters.{name}", "a bogus one", ())
    assert wrong_rows({**KINDS, "bogus": row}, monkeypatch) == ["bogus"]


def test_options_of_hollow_workers_are_options_of_the_simulated_kind() -> None:
    assert set(TRAITS) < set(option_names("simulated"))
    assert option_names("tcp://127.0.0.1:8786") == ()


def test_the_option_takes_every_kind_and_describes_it() -> None:
    option = option_named("cluster")
    assert option.default == DEFAULT
    for name, kind in KINDS.items():
        assert read_value("cluster", name, "a test") == name
        assert repr(name) in option.help
        assert kind.description in option.help
