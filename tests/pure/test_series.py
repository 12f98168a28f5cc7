"""Tests of series of runs: how much figures vary in them, and their steps."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from measured import (
    ENVIRONMENT,
    SCHEDULER,
    TEST,
    TRANSITION,
    compare,
    counted,
    counted_in,
    measured,
    sampled,
)
from msgspec.structs import replace

from pytest_schedprof.judge.change_points import steps_in
from pytest_schedprof.judge.series import LEAST_RUNS, amounts_of, figures_of, usual
from pytest_schedprof.judge.timed import SEEN_ONCE
from pytest_schedprof.model.comparison import Comparison, Origin, Outcome
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult, ClusterFacts, Result
from pytest_schedprof.model.run import Step
from pytest_schedprof.report.changes import condition_words, noise_words
from pytest_schedprof.report.comparisons import comparison_lines, comparison_markdown
from pytest_schedprof.report.junit import pack, unpack
from pytest_schedprof.report.markup import BARS, PLAIN_BARS, bars_for, sparkline

CHECK = f"{SCHEDULER}.check_idle_saturated"
COSTS = {TRANSITION: 1052.0, CHECK: 178.0}

VIRTUAL = ClusterFacts("virtual", "tcp://127.0.0.1:1", 16, 16)
SEEDED = replace(ENVIRONMENT, test_hash_seed="0")


def night(number: int, backend: BackendResult, result: Result | None = None) -> Result:
    """The record of one night of a series."""
    started = f"2026-01-{number + 1:02}T00:00:00+00:00"
    return replace(result or measured(), started_at=started, backends=(backend,))


def judged(nights: Sequence[Result]) -> Comparison:
    """The comparison of the last night with those before."""
    *earlier, before, after = nights
    comparison = compare([before], [after], earlier={TEST: earlier})
    return comparison.comparisons[0]


def of_times(times: Sequence[float], shares: Sequence[float] = ()) -> list[Result]:
    """Nights with these CPU times per task in us, and shares of `_transition`."""
    all_shares = shares or [0.4] * len(times)
    return [
        night(number, sampled(_stacks(share), cpu=[time * 1e-6], samples=4000, seed=number))
        for number, (time, share) in enumerate(zip(times, all_shares, strict=True))
    ]


def _stacks(share: float) -> dict[tuple[str, ...], float]:
    return {("a:root", TRANSITION): share, ("a:root", CHECK): 1 - share}


def noisy(levels: Sequence[float], cv: float, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [level * (1 + generator.gauss(0, cv)) for level in levels]


def of_cpu(comparison: Comparison) -> Outcome:
    return next(
        (change.outcome for change in comparison.changes if change.metric == "cpu"), Outcome.SAME
    )


QUIET, NOISY = (noisy([300.0] * 20, scatter, seed=1) for scatter in (0.005, 0.1))


@pytest.mark.parametrize(
    ("past", "nights", "outcome"),
    [
        (QUIET, [310], Outcome.UNDECIDED),
        (QUIET, [310, 309], Outcome.REGRESSED),
        # A single night that stands out is no regression.
        (QUIET, [450], Outcome.UNDECIDED),
        (QUIET, [450, 301], Outcome.SAME),
        (QUIET, [290], Outcome.SAME),
        (QUIET, [290, 291], Outcome.IMPROVED),
        (NOISY, [330, 330], Outcome.SAME),
        (NOISY, [500, 500], Outcome.REGRESSED),
    ],
)
def test_what_stands_twice_beyond_the_noise_of_the_past_counts(
    past: list[float], nights: list[float], outcome: Outcome
) -> None:
    comparison = judged(of_times([*past, *nights]))
    assert of_cpu(comparison) is outcome
    for change in comparison.changes:
        if change.metric == "cpu":
            assert change.before == pytest.approx(300e-6, rel=0.1 if past is NOISY else 0.01)
            assert (change.note == SEEN_ONCE) == (outcome is Outcome.UNDECIDED)


def test_a_noisy_series_is_told_and_widened() -> None:
    comparison = judged(of_times([*NOISY, 330, 330]))
    assert comparison.thresholds
    assert comparison.thresholds.cpu_rise
    assert comparison.thresholds.cpu_rise > 0.15
    assert noise_words(comparison.thresholds).startswith("noisy: CPU time counts from +")


def test_a_share_counts_when_it_stands_twice() -> None:
    times = [*QUIET, 340, 340]
    shares = [0.4] * len(QUIET) + [0.5, 0.5]
    twice = judged(of_times(times, shares))
    assert f"share {TRANSITION}" in regressed(twice)
    once = judged(of_times(times[:-1], shares[:-1]))
    assert not regressed(once)
    assert once.of(Outcome.UNDECIDED)


def test_a_rare_function_is_no_regression_because_two_runs_saw_it() -> None:
    """Most runs see nothing of it, so that the scatter between runs is zero."""
    shares = [1e-9] * len(QUIET) + [0.022, 0.02]
    nights = [
        night(number, sampled(_stacks(share), cpu=[300e-6], samples=100, seed=number))
        for number, share in enumerate(shares)
    ]
    assert not regressed(judged(nights))


def test_a_helper_that_was_taken_out_of_a_function_is_no_regression_in_any_night() -> None:
    helper = f"{TRANSITION}_of_one"

    def of(number: int, *, is_taken_out: bool) -> Result:
        stacks: dict[tuple[str, ...], float] = {(CHECK,): 0.7, (TRANSITION,): 0.3}
        if is_taken_out:
            stacks |= {(TRANSITION,): 0.1, (TRANSITION, helper): 0.2}
        return night(number, sampled(stacks, samples=4000, seed=number))

    nights = [of(number, is_taken_out=number >= 14) for number in range(17)]
    assert regressed(judged(nights[:16])) == regressed(judged(nights)) == set()


def test_a_function_has_its_figure_in_runs_that_folded_it_too() -> None:
    rare = f"{TRANSITION}_rare"

    def of(number: int, cost: float, whole: float = 5000.0) -> Result:
        costs = {TRANSITION: whole, rare: cost}
        return night(number, counted_in([costs] * 3, is_everything=True))

    past = [of(number, 2.49, 4900.0 if number == 5 else 5000.0) for number in range(13)]
    folded = {len(costs.folded) for result in past if (costs := result.backends[0].costs)}
    assert folded == {0, 1}, "it is near the part from which on a function has a line"
    figures = [dict(amounts_of(result.backends[0]))["bytecodes", rare].value for result in past]
    assert figures == pytest.approx([2.49] * 13)
    assert regressed(judged([*past, of(13, 24.9)])) == {f"bytecodes {rare}"}


def test_a_test_that_the_newest_run_lacks_is_compared_with_the_runs_before() -> None:
    *earlier, newest, now = of_counts([100.0] * 12 + [150.0])
    failed = replace(newest, outcome="failed", is_whole=False)
    for before in ([], [failed]):
        (comparison,) = compare(before, [now], earlier={TEST: earlier}).comparisons
        assert comparison.verdict is Verdict.FAIL


def regressed(comparison: Comparison) -> set[str]:
    return {f"{change.metric} {change.subject}" for change in comparison.of(Outcome.REGRESSED)}


def test_a_past_too_short_is_told_and_today_s_rule_holds() -> None:
    nights = of_times([*QUIET[: LEAST_RUNS - 1], 310, 310])
    short, enough = judged(nights[1:]), judged(nights)
    assert list(condition_words([short])) == [
        f"constant thresholds: {LEAST_RUNS - 1} earlier runs, {LEAST_RUNS} tell how much "
        "figures vary"
    ]
    assert list(condition_words([enough])) == [f"thresholds from {LEAST_RUNS} earlier runs"]
    assert of_cpu(short) is Outcome.UNDECIDED
    assert of_cpu(enough) is Outcome.REGRESSED


def test_where_thresholds_come_from_is_told_in_one_phrase() -> None:
    comparison = judged(of_times([*QUIET, 310, 310]))
    lines = [line.text for line in comparison_lines("nightly", [comparison], 0)]
    assert lines[1] == "  thresholds from 21 earlier runs"
    assert any(line.startswith("  quiet: CPU time counts from +1.") for line in lines)
    assert any(line.startswith("- quiet: CPU time") for line in comparison_markdown(comparison))


def of_counts(values: Sequence[float], result: Result | None = None) -> list[Result]:
    """Nights with these bytecodes per task of one function."""
    return [
        night(number, counted({**COSTS, TRANSITION: value}), result)
        for number, value in enumerate(values)
    ]


@settings(max_examples=15)
@given(st.lists(st.sampled_from([0.95, 1.0, 1.0, 1.02, 1.1]), min_size=25, max_size=25))
def test_an_exact_count_stays_exact_however_often_its_code_was_changed(
    factors: list[float],
) -> None:
    steps = [1052 * factor for factor in accumulate(factors[::5], lambda a, b: a * b)]
    values = [step for step in steps for _ in range(5)]  # each version ran in five nights
    comparison = judged(of_counts([*values, values[-1] * 1.0101]))
    assert f"bytecodes {TRANSITION}" in regressed(comparison)
    assert not judged(of_counts([*values, values[-1] * 1.009])).changes


def test_a_count_that_departs_and_comes_back_is_widened() -> None:
    values = [1052.0] * 8 + [1100.0] + [1052.0] * 8
    assert not judged(of_counts([*values, 1100.0])).changes
    assert regressed(judged(of_counts([1052.0] * 17 + [1100.0]))) >= {f"bytecodes {TRANSITION}"}
    assert regressed(judged(of_counts([*values, 1300.0]))) >= {f"bytecodes {TRANSITION}"}


def test_a_count_that_varies_from_run_to_run_counts_beyond_its_scatter() -> None:
    chance = random.Random(1)
    values = [1052 * (1 + chance.gauss(0, 0.08)) for _ in range(20)]
    assert not regressed(judged(of_counts([*values, 1052 * 1.25])))
    assert regressed(judged(of_counts([*values, 1052 * 2.0]))) >= {f"bytecodes {TRANSITION}"}


def test_in_virtual_time_the_past_changes_nothing() -> None:
    result = measured(cluster=VIRTUAL, environment=SEEDED)
    values = [1052.0] * 8 + [1100.0] + [1052.0] * 8
    comparison = judged(of_counts([*values, 1080.0], result))
    assert regressed(comparison) == {f"bytecodes {TRANSITION}", "bytecodes "}
    assert comparison.thresholds is None


def test_one_round_is_exact_where_the_past_is_quiet() -> None:
    nights = [night(number, counted_in([COSTS])) for number in range(15)]
    dearer = night(15, counted_in([{**COSTS, TRANSITION: 1063.0}]))
    assert f"bytecodes {TRANSITION}" in regressed(judged([*nights, dearer]))
    assert not regressed(judged([nights[0], dearer]))


def test_runs_of_another_machine_tell_nothing_of_times() -> None:
    other = replace(ENVIRONMENT, scheduler_machine="another processor x 2")
    nights = [replace(of_time, environment=other) for of_time in of_times(QUIET)]
    comparison = judged([*nights, *of_times([310, 310])])
    assert comparison.thresholds
    assert (comparison.thresholds.origin, comparison.thresholds.runs) == (Origin.CONSTANTS, 1)


def test_runs_in_another_setting_are_no_past() -> None:
    more = measured(cluster=replace(VIRTUAL, kind="simulated", workers=32))
    nights = of_counts([1052.0] * 15, more)
    comparison = judged([*nights, *of_counts([1052.0, 1052.0])])
    assert comparison.thresholds
    assert comparison.thresholds.runs == 1


def test_figures_are_those_of_the_whole_though_few_functions_travel() -> None:
    samples = sampled({(TRANSITION,): 1.0}, cpu=[5e-4] * 2, samples=50)
    result = measured(counted({f"{TRANSITION}{n}": 10.0 for n in range(50)}), samples)
    assert figures_of(result)["counts"]["bytecodes"] == pytest.approx(500)
    received = unpack(pack(result, None))  # as from a pytest-xdist worker
    assert received.figures["cputime"] == pytest.approx({"cpu": 5e-4})


@pytest.mark.parametrize(
    ("values", "line"),
    [([1], "▅"), ([2, 2], "▅▅"), ([0, 7, 3.5], "▁█▅"), ([*range(400)], None)],
)
def test_bars_lie_between_the_lowest_and_the_highest(
    values: Sequence[float], line: str | None
) -> None:
    bars = sparkline(values, BARS)
    assert bars == line if line else (len(bars), bars[0], bars[-1]) == (40, "▁", "█")


@pytest.mark.parametrize(
    ("encoding", "bars"),
    [("utf-8", BARS), ("ascii", PLAIN_BARS), (None, PLAIN_BARS), ("?", PLAIN_BARS)],
)
def test_bars_are_those_that_the_terminal_knows(encoding: str | None, bars: str) -> None:
    assert bars_for(encoding) == bars


def test_the_level_is_of_the_runs_before_the_newest() -> None:
    level = usual([*[10.0, 10.2] * 6, 20.0])
    assert level.value == pytest.approx(10.1)
    assert level.error < 0.3


PROPERTY = settings(max_examples=25)
EXACT = 0.005
"""The smallest relative change of exact figures that is reported."""

SERIES = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=60)


def places(steps: Iterable[Step]) -> list[int]:
    return [step.at for step in steps]


@pytest.mark.parametrize("values", [[], [1.0], [3.0, 9.0], [1.0, 1.0, 1.0, 2.0, 2.0]])
def test_a_handful_of_points_says_nothing(values: list[float]) -> None:
    assert steps_in(values) == ()


@PROPERTY
@given(value=st.floats(-1e12, 1e12), length=st.integers(0, 80))
def test_a_constant_series_never_changes(value: float, length: int) -> None:
    assert steps_in([value] * length) == ()


@PROPERTY
@given(
    lengths=st.lists(st.integers(6, 30), min_size=2, max_size=4),
    factors=st.lists(st.sampled_from([0.9, 0.95, 0.99, 1.01, 1.05, 2.0]), min_size=4, max_size=4),
)
def test_every_planted_step_of_an_exact_series_is_found(
    lengths: list[int], factors: list[float]
) -> None:
    levels = [23456.7 * factor for factor in accumulate(factors, float.__mul__)][: len(lengths)]
    values = [level for level, n in zip(levels, lengths, strict=True) for _ in range(n)]
    result = steps_in(values, relative=EXACT)
    assert places(result) == list(accumulate(lengths))[:-1]
    assert [step.before for step in result] == pytest.approx(levels[:-1])
    assert [step.after for step in result] == pytest.approx(levels[1:])


@PROPERTY
@given(values=SERIES, shift=st.integers(-(2**20), 2**20), power=st.integers(-20, 20))
def test_shifted_and_scaled_series_change_at_the_same_points(
    values: list[float], shift: int, power: int
) -> None:
    steps = places(steps_in(values))
    assert places(steps_in([value + shift for value in values])) == steps
    assert places(steps_in([value * 2.0**power for value in values])) == steps


@PROPERTY
@given(values=SERIES)
def test_stretches_between_steps_last_and_changes_are_as_large_as_asked(
    values: list[float],
) -> None:
    result = steps_in(values, absolute=100.0)
    borders = [0, *places(result), len(values)]
    assert all(b - a >= 3 for a, b in pairwise(borders) if result)
    assert all(abs(step.after - step.before) >= 100 for step in result)


@PROPERTY
@given(seed=st.integers(0, 10**6), at=st.integers(15, 45), up=st.booleans())
def test_a_step_far_beyond_the_noise_is_found(seed: int, at: int, up: bool) -> None:
    values = noisy([1.0 if (number < at) == up else 2.0 for number in range(60)], 0.08, seed)
    (step,) = steps_in(values, relative=0.05)
    assert abs(step.at - at) <= 1
    assert (step.after > step.before) == up
    assert step.chance < 1e-9


@PROPERTY
@given(at=st.integers(0, 59), by=st.integers(1, 2), height=st.integers(1, 10**6))
def test_what_one_or_two_points_show_alone_is_no_step(at: int, by: int, height: int) -> None:
    assume(at + by <= 60)
    level = [5000.0] * 60
    level[at : at + by] = [5000.0 + height] * by
    assert steps_in(level) == ()


def test_a_change_is_found_at_the_third_point_after_it() -> None:
    levels = [1000.0] * 20 + [1010.0] * 2
    assert steps_in(levels, relative=EXACT) == ()
    assert places(steps_in([*levels, 1010.0], relative=EXACT)) == [20]


def test_changes_that_are_too_small_are_not_told() -> None:
    levels = [1000.0] * 20 + [1004.0] * 20
    assert steps_in(levels, relative=EXACT) == ()
    assert steps_in(levels, absolute=5) == ()
    assert steps_in(levels) == (Step(20, 1000.0, 1004.0, 0.0),)


@pytest.mark.parametrize("total", [1.0, -0.5])
@pytest.mark.parametrize("seed", range(2))
def test_a_slow_change_is_no_staircase(total: float, seed: int) -> None:
    values = noisy([400 * (1 + total * number / 120) for number in range(120)], 0.08, seed)
    assert steps_in(values, relative=0.05) == ()


def test_an_exact_slow_change_is_no_staircase_either() -> None:
    assert steps_in([1000.0 + number for number in range(60)], relative=EXACT) == ()


def test_a_step_within_a_slow_change_is_told() -> None:
    levels = [400 * (1 + 0.005 * number) * (1.6 if number >= 60 else 1) for number in range(120)]
    assert places(steps_in(noisy(levels, 0.05, 1), relative=0.05)) == [60]


def test_noise_alone_is_rarely_a_step() -> None:
    series = [noisy([400.0] * 100, 0.1, seed) for seed in range(50)]
    assert sum(len(steps_in(values, relative=0.05)) for values in series) <= 1


def test_of_many_series_each_must_show_more() -> None:
    values = noisy([400.0] * 20 + [480.0] * 20, 0.1, 3)
    assert places(steps_in(values, relative=0.05)) == [20]
    assert steps_in(values, relative=0.05, siblings=10**6) == ()
    exact = [400.0] * 20 + [404.0] * 20
    assert places(steps_in(exact, relative=EXACT, siblings=10**6)) == [20]


def test_noise_that_lasts_is_not_taken_for_independent() -> None:
    def wandering(seed: int) -> list[float]:
        errors = noisy([1.0] * 100, 0.1, seed)
        return [
            400 * v for v in accumulate(errors, lambda a, b: 1 + 0.4 * (a - 1) + 0.92 * (b - 1))
        ]

    alarms = sum(len(steps_in(wandering(seed), relative=0.05)) for seed in range(20))
    assert alarms <= 4
