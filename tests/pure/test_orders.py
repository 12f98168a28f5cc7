"""Tests of orders: sets that do not depend on the hash seed while counts are recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.agent.choice import SCHEDULER, put_in_order, unseeded_hash

KEYS: st.SearchStrategy[Any] = st.recursive(
    st.text() | st.integers() | st.floats(allow_nan=False), lambda keys: st.tuples(keys, keys)
)


@given(KEYS, KEYS)
def test_equal_keys_have_equal_hashes(one: Any, other: Any) -> None:
    assert unseeded_hash(one) == unseeded_hash(one)
    assert one != other or unseeded_hash(one) == unseeded_hash(other)


PROGRAM = """
from pytest_schedprof.agent.choice import SortedSet, unseeded_hash
print(unseeded_hash(("a", 1, ("b", 2.5))), *SortedSet({"released", "waiting", "memory", "erred"}))
"""


def test_hashes_and_orders_are_the_same_with_every_seed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exec(PROGRAM, {})
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    output = subprocess.check_output(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    assert output == capsys.readouterr().out


def test_constants_are_replaced_while_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    states, mixed, registry = {"b", "a"}, {1, "a"}, {"y", "x"}
    names = {"STATES": states, "FROZEN": frozenset(states), "MIXED": mixed, "registry": registry}
    module: Any = types.ModuleType(SCHEDULER)
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, SCHEDULER, module)
    with ExitStack() as undo:
        put_in_order([r"distributed\.scheduler"], undo)
        assert list(module.STATES) == list(dict.fromkeys(module.FROZEN)) == ["a", "b"]
        assert states == module.STATES
        assert module.STATES.issuperset({"a"})
        assert module.MIXED is mixed
        assert module.registry is registry
        assert module.hash is unseeded_hash
    assert module.STATES is states
    assert module.FROZEN is names["FROZEN"]
    assert not hasattr(module, "hash")


def test_what_may_be_filled_yet_stays_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    registries: dict[str, set[str]] = {"of_a_user": {"a"}, SCHEDULER: set()}
    for name, registry in registries.items():
        module = types.ModuleType(name)
        vars(module)["SEEN"] = registry
        monkeypatch.setitem(sys.modules, name, module)
    with ExitStack() as undo:
        put_in_order(["of_a_user", r"distributed\.scheduler"], undo)
        for name, registry in registries.items():
            assert vars(sys.modules[name])["SEEN"] is registry
