"""Tests of the ring's parts: what it keeps, and what it takes for a stall or a full core."""

from __future__ import annotations

import random
import tracemalloc
from types import CodeType

import pytest

from pytest_schedprof.agent.cputime import Samples
from pytest_schedprof.blackbox.box import FULL_S, is_full
from pytest_schedprof.blackbox.metrics import cost_per_task, owners_of
from pytest_schedprof.blackbox.options import MOST_SAMPLES
from pytest_schedprof.blackbox.packing import joined
from pytest_schedprof.blackbox.slices import MOST_CODES, MOST_STALLS, SLICE_S, Ring
from pytest_schedprof.blackbox.stalls import Stalls
from pytest_schedprof.model.ring import Figures

INTERVAL = 0.05

MOST_BYTES = 30e6


def figures(at: float, *, thread_cpu: float = 0.0, cpu: float = 0.0, tasks: int = 0) -> Figures:
    return Figures(at, cpu, thread_cpu, tasks, 0, 0, 0, 0, 0, 0, 0, {})


def outer() -> None:
    pass


def inner() -> None:
    pass


def other() -> None:
    pass


OUTER, INNER, OTHER = outer.__code__, inner.__code__, other.__code__


class Handle:
    """Stands for a callback of the loop."""


def test_the_ring_forgets_what_is_older_than_its_window() -> None:
    ring = Ring(60, figures(0))
    for number in range(1, 101):
        ring.rotate(figures(number * SLICE_S))
    assert len(ring.ended) == 7  # the oldest has ended a minute ago
    assert ring.ended[0].begun.at == 1000 - 7 * SLICE_S


def test_the_ring_is_bounded_though_its_slices_are_short() -> None:
    ring = Ring(60, figures(0))
    for number in range(1000):
        ring.rotate(figures(number * 1e-3))
    assert len(ring.ended) == 12


def test_samples_of_all_slices_are_joined_in_order() -> None:
    ring = Ring(60, figures(0, thread_cpu=1.0))
    ring.current.add([(INNER, 3), (OUTER, 1)], 1.05)
    ring.rotate(figures(10, thread_cpu=1.1))
    ring.current.add([(OTHER, 5), (OUTER, 1)], 1.10)
    ring.current.add([(INNER, 3), (OUTER, 1)], 1.15)
    ring.rotate(figures(20, thread_cpu=1.2))
    found: Samples = joined(list(ring.ended), INTERVAL)
    stacks = list(found.indexes)
    assert [stacks[number] for number in found.order] == [
        ((id(INNER), 3), (id(OUTER), 1)),
        ((id(OTHER), 5), (id(OUTER), 1)),
        ((id(INNER), 3), (id(OUTER), 1)),
    ]
    assert found.times == [1.05, 1.10, 1.15]
    assert found.started_at == 1.0
    assert found.codes[id(OTHER)] is OTHER


def test_stalls_of_a_slice_are_bounded_and_the_longest_counts() -> None:
    ring = Ring(60, figures(0))
    for took in (0.3, 0.5, 0.2):
        ring.current.note_stall(OUTER, took, took)
    codes: list[CodeType] = [
        compile(f"def f{number}(): pass", "x", "exec") for number in range(2 * MOST_STALLS)
    ]
    for code in codes:
        ring.current.note_stall(code, 1.0, 1.0)
    assert ring.current.stalls[OUTER] == (0.5, 0.5)
    assert len(ring.current.stalls) == MOST_STALLS


@pytest.mark.slow
def test_a_ring_that_is_full_of_different_stacks_takes_few_megabytes() -> None:
    codes = [compile(f"def f{n}(): pass", f"{n}.py", "exec") for n in range(40)]
    slices, chance = 30, random.Random(1)
    each = MOST_SAMPLES // slices
    # Stacks of schedulers have up to 30 frames, and most of them are seen many times.
    stacks = [[(code, chance.randrange(1000)) for code in codes] for _ in range(each)]
    ring = Ring(slices * SLICE_S, figures(0))
    tracemalloc.start()
    try:
        for number in range(1, slices + 1):
            for sample, stack in enumerate(stacks):
                ring.current.add(stack, number * SLICE_S + sample / each)
            ring.rotate(figures(number * SLICE_S))
        held, _ = tracemalloc.get_traced_memory()
        assert sum(len(each.order) for each in ring.ended) == slices * each
        assert held < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_a_slice_keeps_so_many_functions() -> None:
    ring = Ring(60, figures(0))
    for number in range(2 * MOST_CODES):
        ring.current.add([(compile(f"def f{number}(): pass", "x", "exec"), 1)], number * 0.05)
    assert len(ring.current.codes) == len(ring.current.order) == MOST_CODES


def test_a_callback_that_two_samples_see_took_the_time_between_them() -> None:
    stalls, handle = Stalls(INTERVAL, 0.0), Handle()
    assert stalls.see(handle, [OUTER, INNER], 0.05) == 0
    assert stalls.see(handle, [OUTER, OTHER], 0.10) == pytest.approx(0.05)
    assert stalls.see(handle, [OUTER, INNER], 0.15) == pytest.approx(0.10)
    assert stalls.code is OUTER


def test_callbacks_one_after_the_other_are_no_stall() -> None:
    stalls, handles = Stalls(INTERVAL, 0.0), [Handle() for _ in range(10)]
    seen = [stalls.see(each, [OUTER], 0.05 * n) for n, each in enumerate(handles, start=1)]
    assert seen == [0] * 10


def test_a_sample_that_was_held_back_tells_the_time_of_one_call() -> None:
    stalls = Stalls(INTERVAL, 0.0)
    stalls.see(Handle(), [OTHER], 0.05)
    assert stalls.see(Handle(), [OUTER, INNER], 0.85) == pytest.approx(0.75)
    assert stalls.code is INNER


def test_a_handle_that_is_gone_is_not_taken_for_another() -> None:
    stalls = Stalls(INTERVAL, 0.0)
    stalls.see(Handle(), [OUTER], 0.05)  # which is deleted at once; the next may be in its place
    assert stalls.see(Handle(), [OUTER], 0.10) == 0


@pytest.mark.parametrize(("used", "is_so"), [(1.0, True), (0.96, True), (0.9, False)])
def test_a_core_is_full_after_a_minute(used: float, is_so: bool) -> None:
    ring = Ring(300, figures(0))
    for number in range(1, 21):
        assert is_full(list(ring.ended), 0.95) == (is_so and (number - 1) * SLICE_S >= FULL_S - 5)
        at = number * SLICE_S
        ring.rotate(figures(at, thread_cpu=at * used))
    ring.rotate(figures(210, thread_cpu=200 * used))  # idle in the last slice
    assert not is_full(list(ring.ended), 0.95)


def test_figures_of_the_page() -> None:
    ring = Ring(60, figures(0, cpu=1.0, tasks=100))
    assert cost_per_task([]) == 0
    ring.current.add([(INNER, 3)], 1.05)
    ring.rotate(figures(10, cpu=1.5, tasks=600))
    assert cost_per_task(list(ring.ended)) == pytest.approx(0.001)
    assert not owners_of(ring.ended[0])  # nobody in the scheduler owns this file
