"""Tests of what a scheduler carries: laws that are fitted, forecasts, and how they are told."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import jsonschema
import msgspec
import pytest
from capacities import SIZES, capacity, measured
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.analysis.laws import TERMS, fit, inverted
from pytest_schedprof.model.capacity import Forecast, Measured
from pytest_schedprof.pages.capacity_page import page_of_capacity
from pytest_schedprof.pages.capacity_picture import HEIGHT, WIDTH, Axis, pictures_of
from pytest_schedprof.pages.rendering import render_capacity
from pytest_schedprof.presentation.capacity import about, sentences
from pytest_schedprof.reports.capacity_output import as_json, as_text

DOCS = Path(__file__).parents[2] / "docs"

positive = st.floats(1e-6, 1e-2)


@given(positive, st.floats(0, 1e-4), st.sampled_from(["log", "root", "size"]))
def test_a_planted_law_is_found(constant: float, slope: float, term: str) -> None:
    def law(size: float) -> float:
        return constant + slope * TERMS[term](size)

    found = fit([(size, law(size)) for size in SIZES]).forecast(10_000)
    assert found.low <= law(10_000) <= found.high
    assert found.value == pytest.approx(law(10_000), rel=0.2)


@given(positive)
def test_what_does_not_grow_is_forecast_as_it_is(constant: float) -> None:
    fitted = fit([(size, constant) for size in SIZES])
    assert fitted.best.terms == ("1",)
    assert fitted.forecast(10**6).value == pytest.approx(constant)


@pytest.mark.parametrize("term", ["1", "log", "root", "size"])
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_bounds_hold_what_is_measured_later(term: str, noise: float) -> None:
    rng, missed, slope = random.Random(1), 0, {"1": 0, "log": 5e-5, "root": 5e-6, "size": 3e-7}
    for _ in range(300):
        law = {size: 4e-4 + slope[term] * TERMS[term](size) for size in (*SIZES, 10_000)}
        points = [(size, law[size] * rng.gauss(1, noise)) for size in SIZES for _ in range(2)]
        found = fit(points).forecast(10_000)
        missed += not found.low <= law[10_000] * rng.gauss(1, noise) <= found.high
    assert missed <= 30


@given(st.lists(st.tuples(st.integers(1, 10**5), st.just(0.0) | st.floats(1e-9, 1e3)), max_size=8))
def test_any_points_give_a_forecast_within_its_bounds(points: list[tuple[int, float]]) -> None:
    fitted = fit(points)
    for size in (1, 100, 10**6):
        found = fitted.forecast(size)
        assert 0 <= found.low <= found.value * (1 + 1e-9) + 1e-300
        assert found.value <= found.high * (1 + 1e-9) + 1e-300


def test_what_a_round_costs_once_is_no_growth() -> None:
    fitted = fit([(size, 5e-4 + 3e-2 / size + 2e-7 * size) for size in SIZES])
    assert fitted.forecast(10_000).value == pytest.approx(2.5e-3, rel=0.05)
    shared = fit([(size, 5e-4 + 3e-2 / size) for size in SIZES])
    assert shared.forecast(10_000).value == pytest.approx(5e-4, rel=0.02)


def test_a_bound_is_reached_where_the_law_says_so() -> None:
    fitted = fit([(size, 0.1 + 1e-3 * size) for size in SIZES])
    found = fitted.where(5.1)
    assert found.value == pytest.approx(5000, rel=0.01)
    assert found.low < found.value < found.high
    assert fit([(size, 0.1) for size in SIZES]).where(5.1).value == float("inf")


def test_a_matrix_times_its_inverse_is_one() -> None:
    matrix = [[4.0, 2.0, 1e-6], [2.0, 3.0, 2e-6], [1e-6, 2e-6, 5e-9]]
    inverse = inverted(matrix)
    assert inverse is not None
    for i, row in enumerate(matrix):
        for j in range(3):
            told = sum(a * inverse[k][j] for k, a in enumerate(row))
            assert told == pytest.approx(float(i == j), abs=1e-6)
    assert inverted([[1.0, 1.0], [1.0, 1.0]]) is None


def test_tasks_of_a_second_saturate_it_where_their_cost_fills_a_core() -> None:
    (side,) = capacity(measured()).sides
    (second,) = (each.threads for each in side.saturation if each.seconds == 1)
    # n * (380 us + 0.05 us * n) and 5 % of a core without work
    assert second.value == pytest.approx(1990, rel=0.03)
    assert second.low < second.value < second.high
    hundred = side.saturation[0].threads.value
    assert hundred == pytest.approx(243, rel=0.03)


def test_workers_with_more_threads_are_fewer_for_the_same_load() -> None:
    (one,), (four,) = capacity(measured()).sides, capacity(measured(threads=4)).sides
    assert four.sizes[-1].threads == 40_000
    # The cost grows with workers, of which there are fewer.
    assert four.saturation[-1].threads.value > one.saturation[-1].threads.value


def test_the_least_disturbed_cluster_of_a_size_counts() -> None:
    (calm,) = capacity(measured()).sides
    disturbed = measured()
    bad = [replace(each, cpu=tuple(3 * cost for cost in each.cpu)) for each in disturbed.workers]
    both = replace(disturbed, workers=(*disturbed.workers, *bad))
    (found,) = capacity(both).sides
    assert found.sizes == calm.sizes


def test_the_bound_that_is_passed_first_limits_the_number_of_workers() -> None:
    told = " ".join(sentences(capacity(measured())))
    assert "Tasks of one second: saturated at about 2,000 threads (" in told
    assert "lag of the event loop passes 1 s with about 2,000 workers" in told
    assert "stall of the event loop passes 3 s with about 15,000 workers" in told
    assert "So it carries about 2,000 workers: the lag is first." in told
    assert "with prefixes from 1 to 1,000" in told
    assert "0.10 (" in told


def test_what_never_stalls_has_no_largest_number() -> None:
    calm = tuple(replace(each, stall=0.01, lag=0.01) for each in measured().workers)
    told = " ".join(sentences(capacity(replace(measured(), workers=calm))))
    assert "stays below 3 s with up to ten million workers" in told
    assert "no bound limits" in told
    assert "null" in as_json(capacity(replace(measured(), workers=calm)))


def test_another_side_is_compared_at_each_size() -> None:
    both = capacity(measured(0.9), measured(name="distributed==2026.3.0"))
    assert [each.workers for each in both.changes] == list(SIZES)
    for change in both.changes:
        assert change.ratio.value == pytest.approx(0.9)
        assert change.ratio.low <= 0.9 <= change.ratio.high
    text = as_text(both)
    assert "With 2,000 workers a task costs 0.90 times" in text
    assert "(distributed==2026.3.0)" in text


def test_the_text_marks_what_is_a_forecast() -> None:
    lines = as_text(capacity(measured())).splitlines()
    (measured_row,) = (line for line in lines if line.lstrip().startswith("2,000 "))
    (forecast_row,) = (line for line in lines if line.lstrip().startswith("10,000 "))
    assert measured_row.split()[1:5] == ["480", "us,", "480", "us"]
    assert forecast_row.split()[1:3] == ["880", "us"]
    assert measured_row.count("us") > forecast_row.count("us")
    assert len({len(line) for line in (measured_row, forecast_row)}) == 1


def test_json_holds_all_that_was_measured_and_forecast() -> None:
    both = capacity(measured(), measured(1.1, name="other"))
    told = json.loads(as_json(both))
    assert told["schema_version"] == 1
    assert msgspec.convert(told["sides"][0]["measured"], Measured) == both.sides[0].measured
    assert [each["workers"] for each in told["sides"][1]["sizes"]] == [*SIZES, 10_000]


def test_pictures_keep_to_their_frame_and_the_page_needs_nothing_else() -> None:
    both = capacity(measured(), measured(1.1, name="<script>alert(1)</script>"))
    for picture in pictures_of(both):
        for line in picture.lines:
            for place in f"{line.points} {line.band}".split():
                x, y = map(float, place.split(","))
                assert 0 <= x <= WIDTH
                assert 0 <= y <= HEIGHT
    html = render_capacity(page_of_capacity(both))
    assert "<script>alert" not in html
    assert html.count("<svg") == 2
    assert "saturated at about 2,000 threads" in html
    assert "http:" not in html
    assert "https:" not in html


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5))
def test_an_axis_has_all_values_in_order(values: list[float]) -> None:
    axis = Axis.over(values, 100.0)
    places = [axis.place(each) for each in sorted(values)]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 100
    assert len(axis.ticks(str)) >= 2


def test_numbers_are_told_as_people_say_them() -> None:
    told = [about(each) for each in (2634, 0, 7, 99, 10_499, float("inf"))]
    assert told == ["2,600", "0", "7", "99", "10,000", "no number"]
    assert Forecast(1.0, 0.5, 2.0) == Forecast(1.0, 0.5, 2.0)


def test_figures_keep_the_published_schema() -> None:
    schema = json.loads((DOCS / "capacity.schema.json").read_text())
    jsonschema.validate(json.loads(as_json(capacity(measured(), measured(1.1)))), schema)
