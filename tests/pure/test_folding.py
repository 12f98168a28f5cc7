"""Tests of folding functions that cost little, and of comparing records that did it differently."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_schedprof.judge.costs import KEPT, Costs, folded, is_line, line_of, unit_of
from pytest_schedprof.judge.estimate import Figure
from pytest_schedprof.judge.exact import aligned
from pytest_schedprof.model.profile import CostProfile, is_work

LARGE = "distributed.scheduler:SchedulerState._transition"
SMALL = "distributed.scheduler:SchedulerState.coerce_hostname"
GRAPH = "distributed.scheduler:Scheduler.update_graph"
SCHEDULERS = "distributed.scheduler:<others>"
COUNTS = {
    LARGE: {"calls": 10_000, "bytecodes": 1_000_000},
    SMALL: {"calls": 1, "bytecodes": 100},
    GRAPH: {"calls": 1, "bytecodes": 200},
    "dask.utils:key_split": {"calls": 1, "bytecodes": 50},
    "dask.utils:often": {"calls": 6, "bytecodes": 6},
    "pandas.core:<module>": {"calls": 1, "bytecodes": 10},
    "pandas.io:<module>": {"calls": 1, "bytecodes": 20},
}


def costs_of(
    counts: Mapping[str, Mapping[str, int]], *, is_everything: bool = True, rounds: int = 1
) -> Costs:
    profile = CostProfile("counts", "", counts, is_everything=is_everything)
    return Costs([unit_of(100, {}, [profile]) for _ in range(rounds)])


def test_rare_functions_have_one_line_for_their_module_and_owner() -> None:
    assert folded(COUNTS) == {
        LARGE: [LARGE],
        SCHEDULERS: [SMALL],
        "distributed.scheduler:<others-graph-intake>": [GRAPH],
        "dask.utils:<others>": ["dask.utils:key_split"],
        "dask.utils:often": ["dask.utils:often"],  # by its calls
        "pandas:<module>": ["pandas.core:<module>", "pandas.io:<module>"],
    }


def test_folding_keeps_the_sum_of_each_owner() -> None:
    costs = costs_of(COUNTS, rounds=3)
    lines = costs.measured().functions
    for metric in ("calls", "bytecodes"):
        for owner in {line.owner for line in lines} - {"import"}:
            kept = sum(line.total[metric] for line in lines if line.owner == owner)
            assert kept / 300 == pytest.approx(costs.of(metric, f"@{owner}").value)
        assert sum(line.total[metric] for line in lines) == 3 * sum(
            of_function[metric] for of_function in COUNTS.values()
        )


def test_a_function_that_a_limit_names_is_kept() -> None:
    functions = {cost.function for cost in costs_of(COUNTS).measured([SMALL]).functions}
    assert SMALL in functions
    assert SCHEDULERS not in functions


def test_other_backends_and_choices_name_every_function() -> None:
    costs = costs_of(COUNTS, is_everything=False).measured().functions
    assert {lines.function for lines in costs} == COUNTS.keys()


def test_a_record_has_few_lines_whatever_ran() -> None:
    counts = {f"dask.m{i % 50}:f{i}": {"calls": 1, "bytecodes": i} for i in range(20_000)}
    lines = costs_of(counts).measured().functions
    assert len(lines) <= 50 + 2 / KEPT
    assert sum(is_line(line.function) for line in lines) == 50


def figures(**values: float) -> dict[str, Figure]:
    names = {"large": LARGE, "small": SMALL, "others": SCHEDULERS}
    return {names[name]: Figure(value) for name, value in values.items()}


def values(lines: Mapping[str, Figure]) -> dict[str, float]:
    return {name: figure.value for name, figure in lines.items()}


def test_a_function_that_only_one_side_names_is_among_its_others() -> None:
    before, after = aligned(
        figures(large=1e6, others=900.0), figures(large=1e6, small=510.0, others=400.0)
    )
    assert values(before) == {LARGE: 1e6, SCHEDULERS: 900.0}
    assert values(after) == {LARGE: 1e6, SCHEDULERS: 910.0}
    after, before = aligned(
        figures(large=1e6, small=510.0, others=400.0), figures(large=1e6, others=900.0)
    )
    assert values(after) == {LARGE: 1e6, SCHEDULERS: 910.0}


def test_a_side_without_others_named_all_and_fits_one_with_others() -> None:
    before, after = aligned(figures(large=1e6, small=100.0), figures(large=1e6, others=100.0))
    assert values(before) == values(after) == {LARGE: 1e6, SCHEDULERS: 100.0}


def test_a_function_that_surely_rose_is_compared_by_its_name() -> None:
    _, after = aligned(
        figures(large=1e6, others=900.0), figures(large=1e6, small=5000.0, others=400.0)
    )
    assert values(after)[SMALL] == 5000.0


def test_without_others_on_the_other_side_nothing_is_folded() -> None:
    before, after = aligned(figures(large=1e6, small=1.0), figures(large=1e6))
    assert values(before) == {LARGE: 1e6, SMALL: 1.0}
    assert values(after) == {LARGE: 1e6}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (LARGE, True),
        ("dask.utils:key_split", True),
        ("copy:deepcopy", True),
        ("my_plugin:Plugin.transition", True),
        ("__main__:slower", True),
        ("<string>:made", True),
        ("distributed.batched:BatchedSend.send", False),
        ("tornado.iostream:IOStream.write", False),
        ("toolz.itertoolz:sliding_window", False),
        ("functools:singledispatch.<locals>.wrapper", False),
        ("pandas.core.frame:DataFrame.__init__", False),
        ("dask.dataframe:<module>", False),
    ],
)
def test_what_is_work(function: str, expected: bool) -> None:
    assert is_work(function) == expected


def test_lines_are_named_by_conventions_of_python() -> None:
    assert line_of("dask.utils:key_split") == "dask.utils:<others>"
    assert is_line("dask.utils:<others>")
    assert not is_line("dask.utils:<lambda>")
