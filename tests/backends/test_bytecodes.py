"""Tests of bytecodes counted from jumps, against the interpreter's report of each instruction."""

from __future__ import annotations

import dis
import importlib
import sys
from collections import Counter
from types import CodeType, ModuleType
from typing import Any

import pytest

from pytest_schedprof.agent.choice import Choice
from pytest_schedprof.agent.counted import JUMPS, Instruction, instructions_of
from pytest_schedprof.agent.monitoring import Monitor, monitoring
from pytest_schedprof.agent.names import functions_of
from pytest_schedprof.agent.opcodes import Opcodes

NOT_REPORTED = {"RESUME", "RETURN_GENERATOR", "MAKE_CELL", "COPY_FREE_VARS", "EXTENDED_ARG"}
"""Instructions for which the interpreter sends no event, although they are counted."""

Place = tuple[str, int, str]
"""Function, offset and name of an instruction."""


@pytest.fixture
def flows() -> tuple[ModuleType, dict[str, CodeType]]:
    """Import the code anew, so that tests do not share its instrumentation."""
    sys.modules.pop("flows", None)
    module = importlib.import_module("flows")
    return module, dict(functions_of(module))


def instructions(functions: dict[str, CodeType]) -> dict[tuple[int, int], Place]:
    return {
        (id(code), instruction.offset): (name, instruction.offset, instruction.opname)
        for name, code in functions.items()
        for instruction in dis.get_instructions(code)
        if instruction.opname not in NOT_REPORTED
    }


def reported(module: ModuleType, functions: dict[str, CodeType]) -> Counter[Place]:
    """Count each instruction as often as the interpreter reports it."""
    seen: Counter[tuple[int, int]] = Counter()

    def note(code: CodeType, offset: int) -> None:
        seen[id(code), offset] += 1

    monitoring().use_tool_id(3, "truth")
    # Since Python 3.14 a generator that is closed runs its handler only if a tool wants to know.
    monitoring().set_events(3, monitoring().events.PY_UNWIND)
    monitoring().register_callback(3, monitoring().events.INSTRUCTION, note)
    for code in functions.values():
        monitoring().set_local_events(3, code, monitoring().events.INSTRUCTION)
    try:
        module.main()
    finally:
        monitoring().set_events(3, 0)
        monitoring().free_tool_id(3)
    places = instructions(functions)
    return Counter({places[key]: times for key, times in seen.items() if key in places})


def counted(module: ModuleType, functions: dict[str, CodeType]) -> Counter[Place]:
    """Count each instruction from the jumps."""
    monitor = Monitor(Choice([module.__name__]), [], bytecodes=True)
    assert monitor.begin()
    try:
        module.main()
    finally:
        monitor.end()
    places = instructions(functions)
    executed = {code: monitor.flow_of(code).executed(code) for code in functions.values()}
    for code, times in executed.items():
        assert monitor.bytecodes_of(code) == sum(times.values())
    return Counter(
        {
            places[id(code), offset]: count
            for code, times in executed.items()
            for offset, count in times.items()
            if count and (id(code), offset) in places
        }
    )


def test_instructions_are_those_that_dis_tells() -> None:
    codes = [
        code
        for name, module in [*sys.modules.items()]
        if name.partition(".")[0] in ("asyncio", "dask", "distributed", "flows", "tornado")
        for _, code in functions_of(module)
    ]
    assert len(codes) > 3000
    for code in codes:
        expected = [
            Instruction(one.offset, one.opname, one.argval if one.opcode in JUMPS else -1)
            for one in dis.get_instructions(code)
        ]
        assert instructions_of(code) == expected, code


@pytest.mark.skipif(monitoring() is None, reason="sys.monitoring is new in Python 3.12")
def test_jumps_alone_tell_how_often_every_instruction_ran(flows: Any) -> None:
    truth, mine = reported(*flows), counted(*flows)
    different = {place for place in truth | mine if truth[place] != mine[place]}
    assert sum(truth.values()) > 4000
    assert different == set()


@pytest.mark.skipif(monitoring() is None, reason="sys.monitoring is new in Python 3.12")
def test_the_same_run_gives_the_same_counts(flows: Any) -> None:
    assert counted(*flows) == counted(*flows)


@pytest.mark.skipif(monitoring() is not None, reason="sys.monitoring takes its place")
def test_tracing_counts_calls_and_bytecodes(flows: Any) -> None:
    module, functions = flows
    counts = []
    for _ in range(2):
        counter = Opcodes(Choice([module.__name__]), [], bytecodes=True)
        assert counter.begin()
        try:
            module.gen_sum(10)
        finally:
            sys.settrace(None)
        counts.append(counter)
    gen, gen_sum = functions["gen"], functions["gen_sum"]
    assert [counter.calls_of(gen) for counter in counts] == [1, 1]
    assert [counter.calls_of(gen_sum) for counter in counts] == [1, 1]
    assert counts[0].bytecodes_of(gen) == counts[1].bytecodes_of(gen) > 10 * 3
