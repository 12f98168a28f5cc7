"""Tests of the ring of a black box after it was written: its reader, rates, pictures and lines."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rings import BEGUN, RING, figures, ring_of

from pytest_schedprof.analysis.rates import rates_of
from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.ring import read_ring
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.ring import Event
from pytest_schedprof.pages.ring_pictures import ring_pictures
from pytest_schedprof.pages.workload_pictures import HEIGHT, WIDTH
from pytest_schedprof.reports.lines import PLAIN_BARS
from pytest_schedprof.reports.ring_lines import MOST_EVENTS, ring_lines
from pytest_schedprof.storage.rings import ring_in


def test_rates_are_of_each_slice() -> None:
    one, two = rates_of(RING)
    assert (one.tasks, two.tasks) == (100, 50)
    assert (one.transitions, two.transitions) == (500, 250)
    assert (one.loop, two.loop) == (0.5, 0.1)
    assert (one.process, two.process) == pytest.approx((0.75, 0.15))
    assert (one.received, one.sent) == (60, 60)
    assert (one.lag, one.stall, two.lag) == (0.4, 0.2, 0.1)
    assert (two.memory, two.workers, two.clients) == (80_001_500, 4, 1)


def test_a_short_slice_is_counted_with_the_one_before() -> None:
    short = figures(10.001, tasks=1010)
    ring = ring_of(figures(0), figures(10, tasks=1000), short, lags=(0.0, 3.0))
    (whole,) = rates_of(ring)
    assert whole.tasks == pytest.approx(101, abs=0.1)
    assert whole.lag == 3.0
    early = ring_of(figures(0), figures(0.001, tasks=10), figures(10, tasks=1000))
    assert [each.tasks for each in rates_of(early)] == [100]


def test_a_restart_and_a_clock_that_was_set_give_no_negative_rates() -> None:
    ring = ring_of(figures(0, tasks=1000), figures(10, tasks=20), figures(5, tasks=30))
    assert all(each.transitions >= 0 for each in rates_of(ring))
    pictures = ring_pictures(ring)
    assert all(slot.width >= 0 for each in pictures.pictures for slot in each.slots)


def test_curves_are_level_within_each_slice() -> None:
    pictures = ring_pictures(RING)
    tasks = pictures.pictures[0]
    half = WIDTH // 2
    assert dict(tasks.lines)["old"] == f"0,0 {half},0 {half},60 {WIDTH},60"
    assert dict(tasks.lines)["new"] == f"0,96 {half},96 {half},108 {WIDTH},108"
    assert tasks.top == "500"
    assert [(slot.left, slot.width) for slot in tasks.slots] == [(0, half), (half, half)]
    assert tasks.slots[0].told == "22:13:20 to 22:13:30: tasks/s 100, transitions/s 500"
    assert (float(WIDTH), "end") in pictures.ticks
    assert (0.0, "-20 s") in pictures.ticks


def test_events_are_marked_where_they_were() -> None:
    first, last = ring_pictures(RING).marks
    assert (first.x, first.told) == (0.75 * WIDTH, "22:13:35 stall: spin took 1 s")
    assert (last.x, last.is_last, first.is_last) == (WIDTH, True, False)


def test_a_ring_in_which_nothing_happened_is_drawn_flat() -> None:
    still = ring_of(figures(0), figures(10))
    pictures = ring_pictures(still)
    assert dict(pictures.pictures[0].lines)["new"] == f"0,{HEIGHT} {WIDTH},{HEIGHT}"
    assert not pictures.marks
    assert any("tasks/s" in line.text for line in ring_lines(still, PLAIN_BARS))


def test_lines_of_the_terminal() -> None:
    head, columns, *rows = (line.text for line in ring_lines(RING, PLAIN_BARS))
    assert head == "the last minutes: 20 s until 22:13:40 UTC in 2 slices"
    assert columns.split() == ["over", "time", "least", "most", "at", "the", "end"]
    assert rows[0].split() == ["tasks/s", "#_", "50", "100", "50"]
    assert rows[2].split() == ["CPU", "of", "the", "loop", "#_", "10.0%", "50.0%", "10.0%"]
    assert rows[4].split() == ["lag", "#_", "100", "ms", "400", "ms", "100", "ms"]
    assert rows[-1] == "  22:13:40 asked: by me"
    assert len({len(row) for row in rows[:-2]}) == 1


def test_the_last_of_many_events_have_a_line() -> None:
    events = tuple(Event(BEGUN + each, "stall", f"number {each}") for each in range(9))
    rows = [line.text for line in ring_lines(ring_of(figures(0), figures(10), events=events), "_#")]
    assert f"  {9 - MOST_EVENTS} earlier events are on the page" in rows
    assert rows[-1].endswith("number 8")
    assert sum("number" in row for row in rows) == MOST_EVENTS


def test_a_file_is_read_as_it_was_written_and_older_ones_have_no_events() -> None:
    kept = asdict(RING)
    assert read_ring(json.dumps({"request": {}, **kept}).encode()) == RING
    for each in kept["slices"]:
        del each["events"]
    assert all(not each.events for each in read_ring(json.dumps(kept).encode()).slices)


def changed(**figures: float) -> bytes:
    kept = json.loads(json.dumps(asdict(RING)))
    kept["slices"][0]["begun"].update(figures)
    return json.dumps(kept).encode()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "truncated"),
        (b'{"slices": []}', "no slice"),
        (changed(at=1e300), "a time after"),
        (changed(at=-1), "a time after"),
        (changed(tasks=-5), "negative"),
        (changed(rss=10**18), "above"),
        (changed(workers=0.5), "Expected `int`"),
    ],
    ids=["empty", "no-slice", "late", "early", "negative", "huge", "fraction"],
)
def test_what_is_no_such_file_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(FormatError, match=fault):
        read_ring(content)


def test_only_runs_of_a_black_box_have_a_ring(tmp_path: Path) -> None:
    result = Result("test", "passed", "2026-11-24", None, None, 0.95, "1", ())
    assert ring_in(tmp_path, result) is None
    boxed = replace(result, evidence=(Evidence("blackbox", ("blackbox.json",)),))
    assert ring_in(tmp_path, boxed) is None  # the file is gone
    (tmp_path / "blackbox.json").write_text(json.dumps(asdict(RING)))
    assert ring_in(tmp_path, boxed) == RING
    outside = replace(result, evidence=(Evidence("blackbox", ("../blackbox.json",)),))
    assert ring_in(tmp_path / "x", outside) is None
