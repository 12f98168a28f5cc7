"""Tests of counts by caller and by line, with both ways to count."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from pytest_schedprof.agent.choice import Choice
from pytest_schedprof.agent.counted import Callers, lines_of
from pytest_schedprof.agent.counts import COUNTER
from pytest_schedprof.agent.monitoring import Monitor, monitoring
from pytest_schedprof.agent.names import functions_of
from pytest_schedprof.agent.opcodes import Opcodes

CODE = """\
def leaf(x):
    return x + 1


def once(x):
    return leaf(x)


def thrice(x):
    for number in range(3):
        leaf(number)
    return x


def items(x):
    yield leaf(x)
    yield x


def main():
    once(1)
    thrice(1)
    return sum(items(1))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Code of which it is known how often each line runs."""
    (tmp_path / "detailed.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("detailed", None)
    return importlib.import_module("detailed")


def counted(
    module: ModuleType, callers: Callers | None
) -> tuple[Monitor | Opcodes, dict[str, CodeType]]:
    counter = COUNTER(Choice([module.__name__]), [], bytecodes=True, callers=callers)
    assert counter.begin()
    try:
        module.main()
    finally:
        sys.settrace(None)
        counter.end()
    return counter, dict(functions_of(module))


def test_each_call_has_its_caller(module: ModuleType) -> None:
    callers = Callers()
    counter, functions = counted(module, callers)
    named = callers.by_name({f"detailed:{name}": [code] for name, code in functions.items()})
    assert named["detailed:leaf"] == {"detailed:items": 1, "detailed:once": 1, "detailed:thrice": 3}
    assert named["detailed:items"] == {"detailed:main": 1}
    for name, code in functions.items():
        assert sum(named[f"detailed:{name}"].values()) == counter.calls_of(code)


def test_lines_sum_to_the_bytecodes_and_tell_the_loop(module: ModuleType) -> None:
    counter, functions = counted(module, Callers())
    for code in functions.values():
        lines = lines_of([code], [counter.executed(code)])
        assert sum(lines.values()) == counter.bytecodes_of(code)
    (body,) = (at for at, line in enumerate(CODE.splitlines(), 1) if "leaf(number)" in line)
    thrice = functions["thrice"]
    lines = lines_of([thrice], [counter.executed(thrice)])
    assert max(lines, key=lambda line: lines[line]) == body
    assert lines[body] % 3 == 0


@pytest.mark.skipif(monitoring() is not None, reason="sys.monitoring counts each jump anyway")
def test_without_details_only_sums_are_kept(module: ModuleType) -> None:
    counter, functions = counted(module, callers=None)
    assert counter.bytecodes_of(functions["leaf"]) > 0
    assert counter.executed(functions["leaf"]) == {}
