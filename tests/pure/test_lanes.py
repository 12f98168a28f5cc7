"""Tests of the division of a thread's time among nested steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.agent.intake import COLLECTING, Lane


class Clock:
    """Tells how much was worked, in whole seconds, so that sums are exact."""

    now = 0

    def __call__(self) -> float:
        return float(self.now)


class Work(NamedTuple):
    """A step: seconds of its own before each step inside of it and after the last one."""

    step: str
    own: list[int]
    inside: list[Work]
    collected: int
    """Seconds that the garbage collector takes at its end; 0 if it does not run."""


def works(of: st.SearchStrategy[Work]) -> st.SearchStrategy[Work]:
    seconds = st.lists(st.integers(0, 9), min_size=4, max_size=4)
    return st.builds(
        Work, st.sampled_from("abc"), seconds, st.lists(of, max_size=3), st.integers(0, 2)
    )


WORKS = st.recursive(
    st.builds(Work, st.sampled_from("abc"), st.just([1]), st.just([]), st.just(0)),
    works,
    max_leaves=20,
)


def run(work: Work, lane: Lane, clock: Clock) -> None:
    lane.enter(work.step)
    for number, part in enumerate(work.inside):
        clock.now += work.own[number]
        run(part, lane, clock)
    clock.now += work.own[-1]
    if work.collected:
        lane.collect("start")
        clock.now += work.collected
        lane.collect("stop")
    lane.leave()


def flat(work: Work, outer: str = "") -> Iterator[tuple[str, int, bool]]:
    """Yield each step with its own seconds, and whether it is a call of its own."""
    yield work.step, sum(work.own[: len(work.inside)]) + work.own[-1], work.step != outer
    yield COLLECTING, work.collected, False
    for part in work.inside:
        yield from flat(part, work.step)


@given(st.lists(WORKS, min_size=1, max_size=3))
def test_each_step_has_the_time_in_which_it_was_the_innermost(works: list[Work]) -> None:
    clock = Clock()
    lane = Lane(clock)
    expected: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for work in works:
        clock.now += 5  # between two steps, which is nobody's
        run(work, lane, clock)
        for step, seconds, is_call in flat(work):
            expected[step] += seconds
            calls[step] += is_call
    assert {k: v for k, v in lane.seconds.items() if v} == {k: v for k, v in expected.items() if v}
    assert +lane.calls == +calls
    assert sum(lane.seconds.values()) == clock.now - 5 * len(works)
    assert lane.stack == []


def test_a_step_that_goes_on_is_no_further_call() -> None:
    clock = Clock()
    lane = Lane(clock)
    for _ in range(3):
        lane.enter("a", is_call=False)
        clock.now += 2
        lane.leave()
    assert (lane.seconds["a"], lane.calls["a"]) == (6, 0)


def test_a_collection_outside_of_steps_is_nobodys() -> None:
    clock = Clock()
    lane = Lane(clock)
    lane.collect("start")
    clock.now += 3
    lane.collect("stop")
    assert sum(lane.seconds.values()) == 0


def test_a_collection_that_interrupts_the_arithmetic_leaves_sums_right() -> None:
    """The collector may run between any two bytecodes, also while the clock is read."""
    clock = Clock()

    def interrupted() -> float:
        lane.collect("start")
        clock.now += 1
        lane.collect("stop")
        return clock()

    lane = Lane(interrupted)
    lane.enter("a")
    lane.enter("b")
    lane.leave()
    lane.leave()
    assert sum(lane.seconds.values()) == clock.now - 1
    assert COLLECTING not in lane.seconds
