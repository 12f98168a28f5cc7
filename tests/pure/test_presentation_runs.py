"""A test and a run as a whole: headlines, facts, files, and series over many runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import ENVIRONMENT, TRANSITION, counted, measured, sampled

from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.run import (
    Commit,
    Course,
    History,
    Moment,
    Point,
    Run,
    Series,
    Setting,
    Step,
    Trend,
)
from pytest_schedprof.report.results import (
    baseline_names,
    environment_notes,
    evidence_notes,
    facts_of_run,
    facts_of_settings,
    facts_of_test,
    notes_of,
    waited_words,
)
from pytest_schedprof.report.trends import (
    changed_series,
    ends_of,
    history_words,
    notes_of_series,
    series_by_test,
    series_name,
    setting_words,
    shown_series,
)

COUNTED = counted({TRANSITION: 7.0})


@pytest.mark.parametrize(("seconds", "part"), [(0.0, ""), (300e-6, ""), (500e-6, "40%")])
def test_time_without_a_processor_is_a_note(seconds: float, part: str) -> None:
    backend = sampled({(TRANSITION,): 1.0})  # 5,000 samples, and 1.5 s of CPU time
    assert backend.shares is not None
    backend = replace(backend, shares=replace(backend.shares, sample_seconds=seconds))
    assert waited_words(backend).startswith(f"for {part} of the time" if part else "")
    assert bool(waited_words(backend)) is bool(part)
    assert notes_of(backend) == tuple(filter(None, [waited_words(backend)]))


OTHERS = replace(ENVIRONMENT, versions={"dask": "2"}, test_versions={"dask": "1"})


def test_facts_of_several_tests_have_one_line() -> None:
    results = [measured(COUNTED, environment=OTHERS, baseline="main")] * 2
    differences = environment_notes([*results, measured(COUNTED, environment=None)])
    assert differences == ["dask is 1 where the tests run and 2 where the scheduler does"]
    assert baseline_names([*results, measured(COUNTED)]) == ["main"]
    compiled = tuple(f"distributed.{name}" for name in ("a", "b", "c", "d", "e"))
    result = measured(COUNTED, environment=replace(ENVIRONMENT, compiled=compiled))
    (note,) = environment_notes([result, result])
    first = "distributed.a, distributed.b, distributed.c and 2 more;"
    assert note.startswith(f"compiled in the scheduler: {first}")
    assert ("compiled", ", ".join(compiled)) in list(facts_of_settings(result))


def test_a_run_has_its_commit_and_what_its_tests_share() -> None:
    commit = Commit("0123456789abcdef", "main", "2026-01-01", is_dirty=True)
    run = Run("run-1", "2026-01-01T00:00:00+00:00", 1, (), commit)
    facts = dict(facts_of_run(run, [measured(COUNTED), measured(COUNTED)]))
    assert facts["commit"] == "0123456789ab on main, with changes that are not committed"
    assert facts["pytest"] == "ended with exit status 1"
    assert facts["cluster"] == "simulated, 16 workers"
    assert facts["machine"] == "a processor x 2"
    plain = Run("run-1", "2026-01-01T00:00:00+00:00", 0)
    bare = measured(COUNTED, environment=None, cluster=None)
    for started in (facts_of_run(plain, []), facts_of_test(bare)):
        assert [fact.label for fact in started] == ["started"]


def test_notes_of_evidence_come_once() -> None:
    tasks = Evidence("tasks", artifacts=("tasks.json", "tasks.html"), notes=("slow",))
    missing = [
        Evidence(kind, (), notes=("slow",), missing="no Bokeh") for kind in ("memory", "report")
    ]
    assert list(evidence_notes([tasks, *missing])) == ["no memory, report: no Bokeh", "slow"]


SETTING = Setting("test_a", "pyspy", "gil", "3.11", "local", 4, (10, 20), "a processor x 2")
DIRTY = Commit("0123456789abcdef", "", "2026-02-01T00:00:00", is_dirty=True)


def series(
    *values: float,
    steps: tuple[Step, ...] = (),
    trends: tuple[Trend, ...] = (),
    subject: str = "",
    commit: Commit | None = None,
    upgraded: int = 99,
) -> Series:
    """Figures of one run after the other; distributed is upgraded before one of them."""
    figures = tuple(
        Point(
            Moment(
                f"run-{number}",
                f"2026-01-{number + 1:02}T00:00:00",
                commit,
                "2" if number >= upgraded else "1",
            ),
            value,
        )
        for number, value in enumerate(values)
    )
    return Series(SETTING, "calls", subject, figures, Course(steps, trends))


STEP = (Step(2, 10.0, 20.0, 0.01),)
STEPPED = series(10, 10, 20, 20, steps=STEP)
RISING = series(10, 15, 20, trends=(Trend(0, 2, 10.0, 20.0),))


def test_a_setting_leaves_out_what_is_unknown() -> None:
    assert setting_words(SETTING) == (
        "pyspy (gil), Python 3.11, local cluster of 4, scales 10, 20, on a processor x 2"
    )
    assert setting_words(Setting("t", "counts", "", "", "", 0, (), "")) == "counts"
    assert series_name(series(1, subject="@gc")) == "calls(@gc)"
    assert ends_of(STEPPED) == ("10", "20", "+100.0%")


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        (STEPPED, "step at run run-2 (2026-01-03), after run run-1: 10 -> 20, +100.0%"),
        (
            series(10, 10, 20, 20, steps=STEP, commit=DIRTY, upgraded=2),
            "step at 012345678+ (2026-02-01), between two runs of that commit: "
            "10 -> 20, +100.0%; distributed 1 -> 2",
        ),
        (
            RISING,
            "trend from run run-0 (2026-01-01) to run run-2 (2026-01-03): 10 -> 20, +100.0%",
        ),
    ],
)
def test_a_change_has_a_note_with_its_commits_and_versions(changed: Series, note: str) -> None:
    assert list(notes_of_series(changed)) == [note]


def test_rows_are_of_the_whole_and_of_what_changed() -> None:
    still = series(1, 1, subject="@gc")
    moved = series(10, 10, 20, 20, steps=STEP, subject="@comm")
    assert [row.subject for row in shown_series([series(1, 1), still, moved])] == ["", "@comm"]
    late = series(1, 1, 1, 2, steps=(Step(3, 1.0, 2.0, 0.01),), subject="@late")
    assert changed_series([still, moved, late], 5) == [late, moved]
    assert changed_series([still, moved, late], 1) == [late]
    other, third = replace(SETTING, backend="counts"), replace(SETTING, test_id="test_b")
    rows = [replace(STEPPED, setting=setting) for setting in (SETTING, other, third)]
    grouped = [(test, [setting for setting, _ in part]) for test, part in series_by_test(rows)]
    assert grouped == [("test_a", [SETTING, other]), ("test_b", [third])]


def test_a_history_ends_with_its_commits_and_counts() -> None:
    assert list(history_words(History(4, (STEPPED, series(1, subject="@gc")), ()))) == [
        "commits with steps:",
        "  run run-2 (2026-01-03): 1 up, 0 down, in 1 test",
        "2 series with fewer than 6 figures, too few to find steps",
        "4 runs, 2 series: 1 step, 0 trends",
    ]
    for count, runs in enumerate(["0 runs", "1 run", "2 runs"]):
        *_, last = history_words(History(count, (), ()))
        assert last == f"{runs}, 0 series: 0 steps, 0 trends"
