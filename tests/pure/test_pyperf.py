"""Tests of figures in the format of pyperf, which reads them itself."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyperf
import pytest
from measured import SCHEDULER, TEST, counted, measured, sampled

from pytest_schedprof.model.result import Result
from pytest_schedprof.reports.pyperf_suite import as_pyperf

BUSY: dict[tuple[str, ...], float] = {("run", f"{SCHEDULER}._transition"): 1.0}


def suite(*results: Result) -> dict[str, pyperf.Benchmark]:
    read = pyperf.BenchmarkSuite.loads(as_pyperf(results))
    return {each.get_name(): each for each in read.get_benchmarks()}


def test_cpu_time_has_a_value_for_each_round() -> None:
    benchmark = suite(measured(sampled(BUSY, cpu=(100e-6, 110e-6, 120e-6))))[f"{TEST} cputime cpu"]
    assert benchmark.get_unit() == "second"
    assert benchmark.get_values() == pytest.approx((100e-6, 110e-6, 120e-6))
    assert benchmark.get_metadata()["cpu_model_name"] == "a processor x 2"


def test_counts_are_numbers_and_results_that_do_not_count_are_left_out() -> None:
    good = measured(counted({f"{SCHEDULER}._transition": 100.0}), test_id="a")
    bad = replace(measured(counted({f"{SCHEDULER}._transition": 1.0})), outcome="skipped")
    found = suite(good, bad)
    assert found["a counts bytecodes"].get_unit() == "integer"
    assert found["a counts bytecodes"].get_values() == (100.0,)
    assert {name.partition(" ")[0] for name in found} == {"a"}


def test_pyperf_compares_two_runs(tmp_path: Path) -> None:
    for name, factor in (("before", 1.0), ("after", 2.0)):
        rounds = [factor * cpu for cpu in (100e-6, 101e-6, 102e-6, 100e-6, 101e-6)]
        text = as_pyperf([measured(sampled(BUSY, cpu=rounds))])
        (tmp_path / f"{name}.json").write_text(text)
    command = [sys.executable, "-m", "pyperf", "compare_to", "before.json", "after.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "2.00x slower" in done.stdout
    shown = [sys.executable, "-m", "pyperf", "stats", "after.json"]
    subprocess.run(shown, cwd=tmp_path, capture_output=True, check=True)
