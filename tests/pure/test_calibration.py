"""Tests of calibration: what repeated measurements of the same work show, and its use."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path
from statistics import fmean

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import ENVIRONMENT, SCHEDULER, counted, measured, sampled

from pytest_schedprof.analysis.scatter import (
    Part,
    Variance,
    at_most,
    mean_variance,
    rate_at_most,
    variance_of,
)
from pytest_schedprof.comparison.compare import compare
from pytest_schedprof.comparison.detectable import Noise, detectable
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.policy import DEFAULT_POLICY, Policy
from pytest_schedprof.comparison.repeats import Repeats
from pytest_schedprof.errors import BaselineError
from pytest_schedprof.gates.reference import Reference
from pytest_schedprof.model.calibration import (
    BackendCalibration,
    Calibration,
    Calibrations,
    Spread,
)
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.profile import Stack
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.reports.calibrate_output import as_text
from pytest_schedprof.storage.calibration_file import (
    KEPT,
    check_place,
    load_calibrations,
    save_calibration,
)

DOCS = Path(__file__).parents[2] / "docs"
PROPERTY = settings(max_examples=60)
GROUPS = st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=5), min_size=2, max_size=5)
STACKS: dict[Stack, float] = {("a:loop", f"{SCHEDULER}.{name}"): 1 / 5 for name in "abcde"}
ONE = f"{SCHEDULER}.a"


def calibration(*backends: BackendCalibration) -> Calibration:
    return Calibration(
        machine=ENVIRONMENT.scheduler_machine,
        python="3.11",
        cluster="simulated",
        workers=16,
        workload="many_tiny_tasks",
        measured_at="2026-01-01T00:00:00+00:00",
        seconds=60,
        clusters=4,
        distributed="2026.8.0",
        schedprof_version="0.1.0",
        backends=backends,
    )


def spreads(cpu: Spread | None = None, drift: Spread | None = None) -> BackendCalibration:
    return BackendCalibration(
        "cputime", "", 20, 1000, 2.0, 100, cpu, drift, (), (), functions=0, unsteady=()
    )


def repeats(
    windows: Sequence[Sequence[BackendResult]], rounds: Sequence[Sequence[BackendResult]] = ()
) -> Repeats:
    def of(groups: Sequence[Sequence[BackendResult]]) -> list[list[Measurement]]:
        return [[Measurement(measured(each), each) for each in group] for group in groups]

    return Repeats(of(windows), of(rounds), window_s=2.0, given_s=60.0)


def windows_of(clusters: int, many: int, scatter: float, seed: int) -> list[list[BackendResult]]:
    chance = random.Random(seed)
    return [
        [
            sampled(STACKS, cpu=[300e-6 * chance.gauss(1, scatter)], seed=chance.randrange(10**9))
            for _ in range(many)
        ]
        for _ in range(clusters)
    ]


# Scatter of figures.


def test_the_variance_of_one_figure_has_that_between_clusters_in_it() -> None:
    chance = random.Random(1)
    found = []
    for _ in range(300):
        quirks = [chance.gauss(0, 2) for _ in range(6)]
        found.append(variance_of([[chance.gauss(each, 1) for _ in range(4)] for each in quirks]))
    assert fmean(each.value for each in found) == pytest.approx(5, rel=0.1)
    covered = fmean(at_most(each) >= 5 for each in found)
    assert 0.93 <= covered <= 0.99


@PROPERTY
@given(GROUPS, st.floats(0.1, 10), st.floats(-50, 50))
def test_a_variance_is_that_of_the_figures_whatever_their_unit(
    groups: list[list[float]], factor: float, shift: float
) -> None:
    found = variance_of(groups)
    moved = variance_of([[value * factor + shift for value in group] for group in groups])
    assert moved.value == pytest.approx(found.value * factor**2, rel=1e-6, abs=1e-6)
    assert found.value >= 0
    assert 0 < found.freedom <= sum(map(len, groups)) - 1 + 1e-9


def test_one_figure_does_not_scatter_and_nothing_is_sure() -> None:
    assert variance_of([[3.0]]) == Variance()
    assert at_most(variance_of([[3.0]])) == inf


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(3, 0.352), (5, 1.145), (10, 3.940), (30, 18.49)]
)
def test_the_bound_of_a_variance_is_that_of_chi_square(freedom: int, quantile: float) -> None:
    """The 5 % quantiles come from a table."""
    bound = at_most(Variance((Part(2.0, freedom),)))
    assert bound == pytest.approx(2.0 * freedom / quantile, rel=0.08)
    assert bound >= 2.0 * freedom / quantile * 0.999


def test_many_figures_of_the_same_windows_say_no_more_than_they_differ() -> None:
    chance = random.Random(2)
    values = [[[chance.gauss(0, 1) for _ in range(10)] for _ in range(4)] for _ in range(10)]
    alone, alike = mean_variance(values[:1]), mean_variance(values[:1] * 10)
    assert alike.value == pytest.approx(alone.value)
    assert alike.freedom == pytest.approx(alone.freedom)
    assert mean_variance(values).freedom > 3 * alone.freedom


@pytest.mark.parametrize(
    ("cases", "trials", "bound"), [(0, 10, 0.2589), (1, 10, 0.3942), (0, 299, 0.00997), (3, 3, 1)]
)
def test_the_bound_of_a_rate_is_exact(cases: int, trials: int, bound: float) -> None:
    assert rate_at_most(cases, trials) == pytest.approx(bound, abs=1e-4)


# Results reported for a machine.


def test_known_scatter_is_found_and_identical_code_is_no_regression() -> None:
    groups = windows_of(clusters=6, many=6, scatter=0.04, seed=3)
    rounds = [[sampled(STACKS, cpu=(300e-6, 310e-6, 305e-6), seed=n)] for n in range(6)]
    found = repeats(groups, rounds).calibrated(calibration(), DEFAULT_POLICY)
    assert found.cpu
    assert found.drift
    assert found.cpu.value == pytest.approx(0.04, rel=0.3)
    assert found.cpu.value < found.cpu.at_most < 0.1
    assert found.drift.value < 0.02  # randomly chosen samples do not drift
    assert [(each.rounds, each.comparisons, each.alarms) for each in found.alarms] == [
        (1, 18, 0),
        (3, 3, 0),
    ]
    assert {each.rounds for each in found.detectable} == {1, 15}
    assert "0 of 18 comparisons, at most 15.3% of all" in as_text(calibration(found), "FILE")


def test_functions_whose_counts_change_are_named() -> None:
    steady, other = f"{SCHEDULER}._transition", "distributed.comm.tcp:TCP.write"
    groups = [
        [counted({steady: 1000.0, other: 100.0 + (number + cluster) % 2}) for number in range(3)]
        for cluster in range(2)
    ]
    found = repeats(groups, groups).calibrated(calibration(), DEFAULT_POLICY)
    assert found.functions == 2
    assert [(each.metric, each.function) for each in found.unsteady] == [("bytecodes", other)]
    assert found.unsteady[0].part == pytest.approx(0.0913, abs=0.001)
    assert found.cpu is None
    assert found.detectable == ()
    assert "1 of 2 functions" in as_text(calibration(found), "FILE")


@PROPERTY
@given(st.floats(0.001, 0.3), st.floats(0.001, 0.3), st.integers(3, 50), st.integers(1, 200))
def test_less_noise_and_more_rounds_show_smaller_changes(
    cpu: float, share: float, rounds: int, family: int
) -> None:
    def smallest(noise: Noise) -> list[float]:
        found = [each.change for each in detectable(noise, family, DEFAULT_POLICY)]
        return [inf if change is None else change for change in found]

    usual = smallest(Noise(rounds, cpu, share))
    more = smallest(Noise(rounds + 1, cpu, share))
    quieter = smallest(Noise(rounds, cpu / 2, share / 2))
    assert all(a <= b for a, b in zip(more, usual, strict=True))
    assert all(a <= b for a, b in zip(quieter, usual, strict=True))
    assert usual[0] > DEFAULT_POLICY.cpu_rise
    assert all(change > DEFAULT_POLICY.share_rise for change in usual[1:])


def test_a_change_that_is_said_to_be_seen_is_seen_so_often() -> None:
    """Check the detection rate by the comparison itself, for a function whose cost rises."""
    scatter, rounds, level = 0.03, 5, 0.2
    sampling = 1 / sqrt(1000)  # samples per round
    noise = Noise(rounds, scatter / sqrt(rounds), sampling / sqrt(rounds))
    changes = {each.share: each.change for each in detectable(noise, 7, DEFAULT_POLICY)}
    change = changes[level]
    assert change
    chance = random.Random(4)
    dearer = {stack: (1 - level - change) / 4 for stack in STACKS}
    dearer[("a:loop", ONE)] = level + change
    factor = (1 - level) / (1 - level - change)  # the cost of the others stays the same

    def side(shares: dict[Stack, float], cost: float) -> BackendResult:
        cpu = [cost * chance.gauss(1, scatter) for _ in range(rounds)]
        return sampled(shares, cpu=cpu, seed=chance.randrange(10**9))

    seen = 0
    for _ in range(60):
        before, after = side(STACKS, 300e-6), side(dearer, 300e-6 * factor)
        (found,) = compare([measured(before)], [measured(after)]).comparisons
        seen += any(each.subject == ONE for each in found.of(Outcome.REGRESSED))
    assert seen >= 54


# Use of a calibration in comparisons.


def compared(
    before: BackendResult, after: BackendResult, *known: Calibration, python: str = "3.11.7"
) -> Comparison:
    place = replace(ENVIRONMENT, scheduler_python=python)
    old, new = (measured(each, environment=place) for each in (before, after))
    (found,) = compare([old], [new], Policy(calibrations=known)).comparisons
    return found


QUIET = calibration(spreads(Spread(0.01, 0.015, 30), Spread(0.01, 0.015, 30)))
LOUD = calibration(spreads(Spread(0.3, 0.4, 30), Spread(0.3, 0.4, 30)))
VAGUE = calibration(spreads(Spread(0.01, 3.0, 1), Spread(0.01, 3.0, 1)))


def whole(found: Comparison) -> Outcome:
    return next((each.outcome for each in found.changes if each.metric == "cpu"), Outcome.SAME)


def test_on_a_quiet_machine_a_single_window_shows_more_and_on_a_loud_one_less() -> None:
    before, after = (sampled(STACKS, cpu=[cpu], samples=4000) for cpu in (300e-6, 330e-6))
    slow = sampled(STACKS, cpu=[360e-6], samples=4000)
    assert whole(compared(before, after)) is Outcome.UNDECIDED
    assert whole(compared(before, after, QUIET)) is Outcome.REGRESSED
    assert whole(compared(before, slow)) is Outcome.UNDECIDED
    assert whole(compared(before, slow, QUIET)) is Outcome.REGRESSED
    assert whole(compared(before, slow, LOUD)) is Outcome.UNDECIDED
    assert compared(before, after, VAGUE).changes == compared(before, after).changes


def test_of_several_calibrations_the_worst_counts_and_of_other_places_none() -> None:
    before, after = (sampled(STACKS, cpu=[cpu], samples=4000) for cpu in (300e-6, 330e-6))
    assert compared(before, after, QUIET, LOUD) == compared(before, after, LOUD)
    for elsewhere in (
        replace(QUIET, machine="another"),
        replace(QUIET, python="3.12"),
        replace(QUIET, cluster="local"),
    ):
        assert compared(before, after, elsewhere) == compared(before, after)
    assert compared(before, after, QUIET, python="3.12.1") == compared(before, after)


def test_rounds_show_how_they_scatter_and_need_no_calibration() -> None:
    before, after = (sampled(STACKS, seed=seed) for seed in (1, 2))
    assert compared(before, after, LOUD) == compared(before, after)


@pytest.mark.parametrize(("known", "is_tighter"), [(QUIET, True), (LOUD, False)])
def test_shares_of_a_window_are_as_sure_as_the_machine_lets_them_be(
    known: Calibration, is_tighter: bool
) -> None:
    result = sampled(STACKS, cpu=[300e-6], samples=20_000)
    shares = Measurement(measured(result), result).figures([known]).shares
    usual = Measurement(measured(result), result).figures().shares
    assert shares.keys() == usual.keys()
    assert (shares[ONE].high < usual[ONE].high) == is_tighter
    assert (shares[ONE].low > usual[ONE].low) == is_tighter


@pytest.mark.parametrize(("metric", "subject"), [("cpu", ""), ("share", ONE), ("cpu", ONE)])
def test_relative_limits_hold_both_sides_to_it(metric: str, subject: str) -> None:
    result = sampled(STACKS, cpu=[300e-6], samples=20_000)
    after = Measurement(measured(result), result)
    widths = []
    for known in (QUIET, LOUD):
        reference = Reference("main", [measured(result)], Policy(calibrations=(known,)))
        before = reference.before(after)
        then = before.of(metric, subject)
        assert before.now(metric, subject, replace(then, value=0.0)) == then
        widths.append(then.high - then.low)
    assert widths[0] < widths[1]
    unknown = Reference("main", [measured(result)]).before(after)
    assert unknown.now(metric, subject, replace(then, value=0.0)).value == 0.0


# Storage of calibrations.


def test_each_place_keeps_its_last_few(tmp_path: Path) -> None:
    other = replace(QUIET, machine="another")
    save_calibration(str(tmp_path), other)
    for number in range(KEPT + 2):
        save_calibration(str(tmp_path), replace(QUIET, seconds=float(number)))
    found = load_calibrations(str(tmp_path))
    assert found[0] == other
    assert [each.seconds for each in found[1:]] == list(range(2, KEPT + 2))
    schema = json.loads((DOCS / "calibration.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "calibration.json").read_text()), schema)


def test_calibrations_that_end_at_once_are_all_kept(tmp_path: Path) -> None:
    """Each reads the file, adds its own and writes the file back."""
    machines = [f"machine-{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(lambda m: save_calibration(str(tmp_path), replace(QUIET, machine=m)), machines)
        )
    assert sorted(each.machine for each in load_calibrations(str(tmp_path))) == sorted(machines)


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    assert load_calibrations(str(tmp_path / "nowhere")) == ()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is corrupt"),
        ("[]", "is corrupt"),
        ('{"schema_version": 1, "calibrations": [{"machine": 5}]}', "is corrupt"),
        ('{"schema_version": 0, "calibrations": []}', "too old"),
        ('{"schema_version": 99, "calibrations": []}', "upgrade pytest-schedprof"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_a_remedy(
    tmp_path: Path, content: str, told: str
) -> None:
    (tmp_path / "calibration.json").write_text(content)
    for read in (load_calibrations, check_place):
        with pytest.raises(BaselineError, match=told) as raised:
            read(str(tmp_path))
        assert "calibration.json" in str(raised.value)
        assert "remove it and measure again with `schedprof calibrate`" in str(raised.value)


def test_published_schema_is_that_of_the_file() -> None:
    """Regenerate the file with `python docs/write_schemas.py`."""
    from pytest_schedprof.storage.records import json_schema

    assert (DOCS / "calibration.schema.json").read_text() == json_schema(Calibrations)
