"""Tests of the parts of a virtual cluster: its clock, its lines, its journal."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
import types
from collections.abc import Collection
from typing import Any

import psutil
import pytest
from distributed.comm.core import CommClosedError
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.virtual.conductor import RandomNames
from pytest_schedprof.virtual.journal import POINTS, Holding, Window, Workforce
from pytest_schedprof.virtual.lines import Line
from pytest_schedprof.virtual.loop import (
    EPOCH,
    RESOLUTION_S,
    VirtualLoop,
    at_least_a_tick,
    replace_clocks,
    rounded,
)
from pytest_schedprof.virtual.sameness import steady_readings
from pytest_schedprof.virtual.weather import Draw, Weather, fewest

seconds = st.floats(min_value=0, max_value=1e6, allow_nan=False)


@given(seconds, st.floats(min_value=1e-300, max_value=1e3))
def test_a_delay_always_moves_the_clock(start: float, delay: float) -> None:
    """Else a timer that rounding let come too soon would be set again for ever."""
    now = rounded(EPOCH + start)
    assert rounded(now + at_least_a_tick(delay)) >= now + RESOLUTION_S


@given(seconds, st.integers(min_value=0, max_value=50))
def test_equal_times_are_equal_however_they_came_about(seconds: float, steps: int) -> None:
    start = rounded(EPOCH + seconds)
    by_steps = start
    for _ in range(steps):
        by_steps = rounded(by_steps + 0.005)
    assert by_steps == rounded(start + steps * 0.005)


def test_clocks_are_replaced_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("distributed.some_module")
    module.time, module.sleep = time.time, time.sleep
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    with replace_clocks(lambda: 7.0):
        assert module.time() == 7.0
        assert module.sleep is time.sleep
    assert module.time is time.time


def test_readings_are_steady_also_where_a_machine_does_not_tell_of_its_disks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for owner, names in READINGS.items():
        for name in names:  # which are replaced for good
            monkeypatch.setattr(owner, name, getattr(owner, name))

    def refuse() -> None:
        raise NotImplementedError("as psutil does, if /proc has no diskstats")

    monkeypatch.setattr(psutil, "disk_io_counters", refuse)
    before = psutil.cpu_times
    steady_readings()
    assert psutil.disk_io_counters is refuse
    assert psutil.cpu_times is not before


READINGS: dict[Any, tuple[str, ...]] = {
    psutil: ("cpu_times", "net_io_counters"),
    psutil.Process: ("memory_info", "cpu_percent"),
}


def test_a_virtual_loop_skips_the_time_and_keeps_the_order() -> None:
    loop = VirtualLoop()
    seen: list[int] = []

    async def work() -> None:
        for number in range(200):
            loop.call_at(EPOCH + 3600, seen.append, number)
        await asyncio.sleep(3601)

    really = time.perf_counter()
    loop.run_until_complete(work())
    assert loop.time() == EPOCH + 3601
    assert time.perf_counter() - really < 3600
    assert seen == list(range(200))  # timers of the same time, in the order in which they were set
    loop.close()


class Clock:
    """Calls what is due, in the place of a loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[Any] = []
        self.numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any, *args: Any) -> None:
        heapq.heappush(self.due, (when, next(self.numbers), call, args))

    def run(self, until: float = math.inf) -> None:
        while self.due and self.due[0][0] <= until:
            self.now, _, call, args = heapq.heappop(self.due)
            call(*args)
        self.now = self.now if until == math.inf else until


def line_of(clock: Any, latency: Any = lambda: 0.001) -> tuple[Line, list[Any], Any]:
    expected: list[Any] = []
    arrived: list[Any] = []

    def expect(call: Any) -> Any:
        expected.append(call)
        return call

    def deliver(batch: list[dict[str, Any]]) -> None:
        arrived.append((round(clock.now, 6), [message["n"] for message in batch]))

    return Line(clock, deliver, expect, interval=0.005, latency=latency), arrived, expected


def test_the_first_message_leaves_at_once_and_the_next_ones_together() -> None:
    clock = Clock()
    line, arrived, expected = line_of(clock)
    line.send({"n": 1})
    clock.now = 0.002
    line.send({"n": 2}, {"n": 3})
    clock.now = 0.004
    line.send({"n": 4})
    assert len(expected) == 2
    clock.run()
    assert arrived == [(0.001, [1]), (0.006, [2, 3, 4])]
    line.abort()
    with pytest.raises(CommClosedError):
        line.send({"n": 5})


@given(st.lists(st.tuples(st.floats(0, 0.02), st.floats(0, 0.1)), max_size=50), st.booleans())
def test_no_message_overtakes_another(sent: list[tuple[float, float]], is_held: bool) -> None:
    clock = Clock()
    ways = iter([way for _, way in sent])
    line, arrived, _ = line_of(clock, lambda: next(ways))
    for number, (pause, _) in enumerate(sent):
        clock.run(until=clock.now + pause)
        line.send({"n": number})
        if is_held and number == 20:
            line.hold_until(clock.now + 0.05)
    clock.run()
    assert [number for _, batch in arrived for number in batch] == list(range(len(sent)))


def test_idle_threads_count_while_tasks_are_ready() -> None:
    workers = Workforce()
    workers.update(0.0, "a", held=0, free=2, ready=0)
    workers.update(1.0, "b", held=10, free=0, ready=3)  # until now nothing was ready
    workers.update(3.0, "b", held=30, free=0, ready=0)
    workers.look(9.0)
    assert workers.idle_s == 4.0
    assert (workers.worst, workers.most) == (30, 30)
    workers.update(9.0, "a", held=5, free=0, ready=0)
    workers.update(9.0, "b", held=0, free=0, ready=0)
    assert (workers.held, workers.worst, workers.most) == (5, 30, 35)


def window_of(*messages: tuple[float, str, dict[str, Any]]) -> dict[str, Any]:
    window = Window(Workforce(), 100.0)
    for now, way, message in messages:
        window.arrived(now, way, "worker-1", message)
    return window.report(200.0)


RUN = (
    (101.0, "to", {"op": "compute-task", "key": "x"}),
    (103.5, "from", {"op": "task-finished", "key": "x"}),
)


def test_the_makespan_is_from_the_first_task_to_the_last_end() -> None:
    report = window_of(*RUN, (150.0, "to", {"op": "free-keys", "keys": ["x"]}))
    assert report["makespan"] == 2.5
    assert report["recomputed"] == 0
    assert window_of(*RUN, *RUN)["recomputed"] == 1
    assert window_of()["makespan"] == 0.0
    assert window_of(RUN[0])["makespan"] == 0.0, "it is not over"
    earlier = (100.5, *RUN[1][1:])
    assert window_of(earlier, RUN[0])["makespan"] == 0.0, "another was over before"


def test_the_hash_is_that_of_what_happened() -> None:
    assert window_of(*RUN)["hash"] == window_of(*RUN)["hash"]
    later = (*RUN[:1], (103.6, *RUN[1][1:]))
    assert window_of(*later)["hash"] != window_of(*RUN)["hash"]


def test_what_finished_is_in_the_task_stream() -> None:
    window = Window(Workforce(), 100.0)
    times = [
        {"action": "transfer", "start": 100.5, "stop": 101.0, "source": "worker-2"},
        {"action": "compute", "start": 101.0, "stop": 103.0},
    ]
    message = {"op": "task-finished", "key": "x", "nbytes": 7, "startstops": times}
    window.arrived(103.1, "from", "worker-1", message)
    tasks, transfers = window.tasks.columns(), window.transfers.columns()
    assert [column[0] for column in tasks.values()] == [0, 0, 1_000_000, 2_000_000, 7]
    assert [column[0] for column in transfers.values()] == [0, 500_000, 500_000]
    assert (window.keys.in_order(), window.names.in_order()) == (["x"], ["worker-1"])


HOLDS = st.lists(
    st.tuples(st.floats(0, 1e5), st.sampled_from("abc"), st.integers(0, 100)), max_size=300
)


@given(HOLDS)
def test_peaks_survive_however_long_the_time(holds: list[tuple[float, str, int]]) -> None:
    holding = Holding({"a": 5}, 0.0)
    held, most, worst = {"a": 5}, 5, 5
    for now, name, nbytes in sorted(holds):
        holding.note(now, name, nbytes)
        held[name] = nbytes
        most, worst = max(most, sum(held.values())), max(worst, *held.values())
    columns = holding.columns()
    assert len(columns["at"]) <= POINTS
    assert columns["at"] == sorted(set(columns["at"]))
    assert (max(columns["all"]), max(columns["worst"])) == (most, worst)
    assert columns["all"][-1] >= sum(held.values())


def test_names_of_one_place_do_not_depend_on_those_of_others() -> None:
    one, other = RandomNames("1"), RandomNames("1")
    names = [one.draw("submit", 12), one.draw("submit", 12)]
    assert other.draw("submit", 40) == names[0]  # the same place, on another line
    other.draw("submit", 45)
    other.draw("map", 40)
    assert other.draw("_submit", 40) == names[1]  # private in that release
    drawn = [source.draw(*place) for source in (one, RandomNames("2")) for place in PLACES]
    assert len({*names, *drawn}) == len(names) + len(drawn)


PLACES = (("submit", 12), ("submit", 13), ("map", 12), ("map", 13))


@given(st.sets(st.integers(0, 60), min_size=1, max_size=40), st.data())
def test_the_fewest_draws_with_which_a_test_fails_are_those_it_needs(
    drawn: set[int], data: st.DataObject
) -> None:
    needed = data.draw(st.sets(st.sampled_from(sorted(drawn)), max_size=3))
    every = [Draw("wire", number) for number in sorted(drawn)]

    def fails(kept: Collection[Draw]) -> bool:
        return needed <= {draw.number for draw in kept}

    assert {draw.number for draw in fewest(every, fails, 1000)} == needed
    trials = iter(range(10))
    few = fewest(every, lambda kept: fails(kept) and next(trials) >= 0, 10)
    assert fails(few), "with few trials more draws are left, and it still fails"


@given(st.integers(0, 9), st.lists(st.sampled_from("abc"), max_size=200))
def test_a_draw_hangs_on_no_other_one(seed: int, places: list[str]) -> None:
    whole = Weather(seed)
    late = [whole.delay(0.1, place, 0, str) for place in places]
    kept = [*whole.drawn][::2]
    part = Weather(seed, kept)
    again = [part.delay(0.1, place, 0, str) for place in places]
    assert [delay for delay in again if delay] == [delay for delay in late if delay][::2]
