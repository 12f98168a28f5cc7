"""Tests of orders: sets that do not depend on the hash seed while counts are recorded."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.agent.orders import HASHING, Orders, unseeded_hash

KEYS: st.SearchStrategy[Any] = st.recursive(
    st.text() | st.integers() | st.floats(allow_nan=False), lambda keys: st.tuples(keys, keys)
)


@given(KEYS, KEYS)
def test_equal_keys_have_equal_hashes(one: Any, other: Any) -> None:
    assert unseeded_hash(one) == unseeded_hash(one)
    assert one != other or unseeded_hash(one) == unseeded_hash(other)


PROGRAM = """
from pytest_schedprof.agent.orders import SortedSet, unseeded_hash
print(unseeded_hash(("a", 1, ("b", 2.5))), *SortedSet({"released", "waiting", "memory", "erred"}))
"""


def test_hashes_and_orders_are_the_same_with_every_seed() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


@contextmanager
def module(name: str, monkeypatch: pytest.MonkeyPatch, **names: Any) -> Iterator[types.ModuleType]:
    found = types.ModuleType(name)
    vars(found).update(names)
    monkeypatch.setitem(sys.modules, name, found)
    yield found


def test_constants_are_replaced_while_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    states, mixed, registry = {"b", "a"}, {1, "a"}, {"y", "x"}
    names = {"STATES": states, "FROZEN": frozenset(states), "MIXED": mixed, "registry": registry}
    with module(HASHING, monkeypatch, **names) as found:
        orders = Orders([r"distributed\.scheduler"])
        orders.begin()
        during: Any = found
        assert list(during.STATES) == list(dict.fromkeys(during.FROZEN)) == ["a", "b"]
        assert states == during.STATES
        assert during.STATES.issuperset({"a"})
        assert during.MIXED is mixed
        assert during.registry is registry
        assert during.hash is unseeded_hash
        orders.end()
        assert during.STATES is states
        assert during.FROZEN is names["FROZEN"]
        assert not hasattr(found, "hash")
