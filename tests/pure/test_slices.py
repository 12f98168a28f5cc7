"""Tests of samples over time: no sample is lost, and their order is kept."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.recordings import busy_stacks
from pytest_schedprof.model.profile import SampleProfile, Stack, Thread
from pytest_schedprof.report.flames import GRAINS, MOST_PAIRS, as_content, call_tree, slices_of

LOOP = "asyncio.base_events:BaseEventLoop._run_once"
IDLE = (LOOP, "selectors:EpollSelector.select")


def profile(*threads: Sequence[Stack]) -> SampleProfile:
    stacks = list(dict.fromkeys(stack for samples in threads for stack in samples))
    return SampleProfile(
        "cputime",
        "",
        tuple(stacks),
        tuple(Thread("", array("q", map(stacks.index, samples))) for samples in threads),
    )


STACKS = st.sampled_from([(LOOP, f"distributed.scheduler:f{n}") for n in range(9)] + [IDLE])


@given(st.lists(st.lists(st.lists(STACKS, max_size=200), max_size=3), max_size=3))
def test_all_samples_are_in_one_slice_each(rounds: list[list[list[Stack]]]) -> None:
    profiles = [profile(*threads) for threads in rounds]
    tree = call_tree(busy_stacks(profiles))
    slices = slices_of(profiles, tree)
    if slices is None:
        return
    sums = sum(slices.nodes, Counter())
    assert [sums[number] for number in range(len(tree.own))] == list(tree.own)
    assert sum(slices.samples) == sum(len(thread) for threads in rounds for thread in threads)
    assert all(side.total() <= all for side, all in zip(slices.nodes, slices.samples, strict=True))


def test_slices_follow_the_order_of_the_samples_and_of_the_rounds() -> None:
    first, second = ((LOOP, f"distributed.scheduler:f{n}") for n in range(2))
    profiles = [profile([first] * 300 + [IDLE] * 300), profile([second] * 600)]
    tree = call_tree(busy_stacks(profiles))
    slices = slices_of(profiles, tree)
    assert slices is not None
    assert slices.samples == [10] * GRAINS[0][0]
    quarter = GRAINS[0][0] // 4
    counts = [sum(node.values()) for node in slices.nodes]
    assert counts == [10] * quarter + [0] * quarter + [10] * 2 * quarter
    assert slices.rounds == [2 * quarter]
    assert set(slices.nodes[0]) | set(slices.nodes[-1]) == {
        number for number, own in enumerate(tree.own) if own
    }


def test_rare_calls_among_many_are_counted_as_their_callers_own() -> None:
    names = [f"distributed.scheduler:f{n}" for n in range(2000)]
    rare = [(LOOP, names[n % 20], name) for n, name in enumerate(names)]
    often = [(LOOP, names[n % 20]) for n in range(8000)]
    mixed = [
        stack
        for four, one in zip(range(0, 8000, 4), rare, strict=True)
        for stack in (*often[four : four + 4], one)
    ]
    profiles = [profile(mixed)]
    tree = call_tree(busy_stacks(profiles))
    slices = slices_of(profiles, tree)
    assert slices is not None
    assert slices.pairs <= MOST_PAIRS
    assert sum(node.total() for node in slices.nodes) == sum(tree.own) == len(mixed)
    depths = {tree.depths[number] for node in slices.nodes for number in node}
    assert depths == {1}
    unlike = [profile([(f"distributed.scheduler:f{n}",) for n in range(MOST_PAIRS + 1)])]
    assert slices_of(unlike, call_tree(busy_stacks(unlike))) is None


def test_nodes_are_written_as_steps() -> None:
    profiles = [profile([(LOOP,), (LOOP, "a:f"), (LOOP, "a:f"), (LOOP, "a:g"), *[IDLE] * 236])]
    slices = slices_of(profiles, call_tree(busy_stacks(profiles)))
    assert slices is not None
    content = as_content(slices)["nodes"]
    assert content[:3] == [[0, 1, 1, 1], [1, 1, 1, 1], []]
