"""Tests that a replay takes as long, moves as much and asks for as much as what was recorded."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from at_work import at_work, inc
from distributed import Client, as_completed, wait
from hypothesis import given, settings
from hypothesis import strategies as st
from in_release import OPTIONS, begin, end
from written_workloads import write_workload

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.model.workload import Graph, Group, Release, Result, Task, Workload
from pytest_schedprof.replay.fetching import record_workload
from pytest_schedprof.replay.following import Order, scripts_of
from pytest_schedprof.workloads import WORKLOADS, replay

Work = Callable[[Client], object]


def chained(client: Client, size: int) -> None:
    """Submit a task that needs its result whenever one ends."""
    submitted = 16
    running = as_completed(client.map(inc, range(submitted), pure=False))
    for ended in running:
        if submitted < size:
            running.add(client.submit(inc, ended, pure=False))
            submitted += 1


@dataclass(frozen=True)
class Took:
    """What a window on a virtual cluster says."""

    digest: str
    makespan: float
    transferred: int
    transitions: int


def measured(client: Client, work: Work) -> Took:
    before = client.run_on_scheduler(begin)
    work(client)
    window, after = client.run_on_scheduler(end)
    figures = window["figures"]
    return Took(window["hash"], figures["makespan"], figures["transferred"], after - before)


def recorded(path: Path, work: Work) -> Took:
    with at_work(VirtualCluster, **OPTIONS) as client, record_workload(client, path):
        return measured(client, work)


def replayed(path: Path) -> Took:
    with at_work(VirtualCluster, workload=str(path)) as client:
        return measured(client, lambda client: replay(client, path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tree_reduction", "all_to_all", "anomaly_mean", "chained"])
def test_a_replay_is_true(name: str, tmp_path: Path) -> None:
    """Bytes are those of a few steals in chains, which are not the same ones."""
    path, work = tmp_path / "work.schedprof", {**WORKLOADS, "chained": chained}[name]
    real, again = recorded(path, lambda client: work(client, 100)), replayed(path)
    assert again.transitions == pytest.approx(real.transitions, rel=0.02)
    assert again.makespan == pytest.approx(real.makespan, rel=0.1)
    if name != "chained":
        assert again.transferred == pytest.approx(real.transferred, rel=0.1)


def random_work(client: Client, seed: int) -> None:
    """Submit small graphs, some of which need earlier results, and wait now and then."""
    chance, held = random.Random(seed), [client.submit(inc, 0, key="first")]
    for _ in range(chance.randrange(2, 6)):
        needed = chance.sample(held, min(len(held), 3))
        held += client.map(inc, [needed] * chance.randrange(1, 8), pure=False)
        if chance.random() < 0.5:
            wait(held)
        if chance.random() < 0.3:
            del held[: len(held) // 2]
    wait(held)


@pytest.mark.slow
@settings(max_examples=2, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_a_file_that_is_read_and_written_is_replayed_the_same_twice(seed: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        path, copy = Path(place, "recorded"), Path(place, "copy")
        recorded(path, lambda client: random_work(client, seed))
        copy.write_bytes(write_workload(read_workload(path.read_bytes())))
        one, other = replayed(path), replayed(copy)
        assert one == other


def loop_of(size: int, flight: int, seconds: list[float]) -> Workload:
    """A client that submits a task for each result, and has so many tasks at a time."""
    workload, running = Workload(), []

    def submit(time: float, needed: list[int]) -> None:
        number = len(workload.graphs)
        task = Task(number, Group("inc"), needed, {})
        ended = time + seconds[number]
        workload.results[number] = Result(ended, seconds[number], 1, False)
        running.append((ended, number))
        workload.graphs.append(Graph(time, 0, [task], [number]))

    for _ in range(flight):
        submit(0.0, [])
    while len(workload.graphs) < size:
        running.sort()
        ended, number = running.pop(0)
        submit(ended, [number])
        workload.releases.append(Release(ended, 0, [number]))
    return workload


SECONDS = [random.Random(n).uniform(1, 9) for n in range(60)]


def test_a_loop_over_results_takes_them_as_they_come() -> None:
    (script,) = scripts_of(loop_of(60, 8, SECONDS)).values()
    assert len(script.in_order["inc"]) == 60
    (script,) = scripts_of(loop_of(60, 1, SECONDS)).values()  # there is no choice
    assert script.in_order == {}


def test_chains_of_a_given_length_stay_what_they_are() -> None:
    """The results of their ends are not taken, while others are to come."""
    workload = loop_of(60, 8, SECONDS)
    ends = sorted((result.time, number) for number, result in workload.results.items())
    left_out = ends[10][1]
    graphs = [graph for graph in workload.graphs if left_out not in graph.tasks[0].dependencies]
    releases = [release for release in workload.releases if left_out not in release.tasks]
    changed = Workload(graphs=graphs, releases=releases, results=workload.results)
    (script,) = scripts_of(changed).values()
    assert script.in_order == {}


@given(st.permutations(range(12)), st.permutations(range(12)), st.integers(0, 12))
def test_each_result_stands_for_one(first: list[int], second: list[int], came: int) -> None:
    order = Order({"inc": first})
    for number in second[:came]:
        order.note(number, "inc")
    assert [order.of(number) for number in first[:came]] == second[:came]
    assert sorted(order.of(number) for number in range(12)) == list(range(12))
