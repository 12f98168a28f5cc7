"""Tests of the recent figures in the terminal's table, made from the records of the last runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from measured import SCHEDULER, TEST, counted, measured, sampled

from pytest_schedprof.judge.series import Recent, figures_of, recent_series
from pytest_schedprof.model.result import ClusterFacts, Result
from pytest_schedprof.model.run import Run, TestEntry, setting_of
from pytest_schedprof.report.junit import pack, unpack
from pytest_schedprof.report.markup import BARS, PLAIN_BARS, bars_for, sparkline
from pytest_schedprof.report.terminal import summary_lines

NAME = f"{SCHEDULER}._transition"


def result(bytecodes: float) -> Result:
    samples = sampled({(NAME,): 1.0}, cpu=[bytecodes * 1e-6] * 2, samples=50)
    return measured(counted({f"{NAME}{n}": bytecodes / 50 for n in range(50)}), samples)


def run_of(result: Result) -> Run:
    figures = unpack(pack(result, None)).figures  # as received from a pytest-xdist worker
    entry = TestEntry(TEST, result.outcome, result.verdict, "x", setting_of(result), figures)
    return Run("run", "2026-01-01T00:00:00+00:00", 0, (entry,))


def recent(*results: Result) -> Recent:
    return recent_series([run_of(result) for result in results])


def test_figures_are_those_of_the_whole_though_few_functions_travel() -> None:
    assert figures_of(result(500.0))["counts"]["bytecodes"] == pytest.approx(500)
    assert run_of(result(500.0)).tests[0].figures["cputime"] == pytest.approx({"cpu": 5e-4})


def test_a_line_for_each_backend_from_the_third_run_on() -> None:
    results = [result(cost) for cost in (100.0, 100.0, 200.0)]
    assert recent(*results[:2]) == {}
    lines = summary_lines(results[-1:], "", verbosity=0, recent=recent(*results), bars=PLAIN_BARS)
    text = [line.text for line in lines]
    assert "    bytecodes __# 100 -> 200 in 3 runs" in text
    assert "    cpu __# 100 us -> 200 us in 3 runs" in text


def test_only_what_was_measured_in_the_same_way_is_one_course() -> None:
    other = replace(result(900.0), cluster=ClusterFacts("local", "", workers=2, threads=2))
    failed = replace(result(900.0), outcome="failed")
    same = [result(cost) for cost in (100.0, 100.0, 200.0)]
    metric, values = recent(other, same[0], failed, *same[1:])[TEST, "counts"]
    assert (metric, [round(value) for value in values]) == ("bytecodes", [100, 100, 200])


@pytest.mark.parametrize(
    ("values", "line"),
    [([1], "▅"), ([2, 2], "▅▅"), ([0, 7, 3.5], "▁█▅"), ([*range(400)], None)],
)
def test_bars_lie_between_the_lowest_and_the_highest(
    values: Sequence[float], line: str | None
) -> None:
    bars = sparkline(values, BARS)
    assert bars == line if line else (len(bars), bars[0], bars[-1]) == (40, "▁", "█")


def test_small_changes_are_small() -> None:
    assert sparkline([1000, 1005, 1001, 1000], BARS, 0.1) == "▁▁▁▁"
    assert sparkline([1000, 1050, 1111], BARS, 0.1) == "▁▄█"


@pytest.mark.parametrize(
    ("encoding", "bars"),
    [("utf-8", BARS), ("ascii", PLAIN_BARS), (None, PLAIN_BARS), ("?", PLAIN_BARS)],
)
def test_bars_are_those_that_the_terminal_knows(encoding: str | None, bars: str) -> None:
    assert bars_for(encoding) == bars
