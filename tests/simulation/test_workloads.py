"""Test that every workload runs to its end, on real and on hollow workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from at_work import PATIENCE_S, at_work
from distributed import Client

from pytest_schedprof.clusters.own import LocalProcesses, OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.workloads import WORKLOADS

SIZE = 50

FEWER_TASKS = {
    "submission_only": 1,
    "cancelled_tasks": 1,
    "many_questions": 1,
    "broadcasts": 1,
    "coordination": 1,
    "records": 1,
    "cancelled": 25,
    "p2p_rechunk": 21,
    "p2p_shuffle": 16,
    "delayed_array": 13,
    "fused": 7,
    "heartbeats": 26,
}
"""Tasks of workloads that do not have SIZE of them.

Those with one task are about other work of the scheduler. Half of the cancelled tasks never run.
The size of a rechunking or a shuffle is its number of connections, that of a large expression its
number of steps, that of a delayed array its number of tasks before they are fused in pairs, and
that of heartbeats about how long they go on.
"""


@pytest.fixture(
    scope="module", params=[LocalProcesses, SimulatedCluster], ids=lambda kind: kind.kind
)
def cluster(request: pytest.FixtureRequest) -> Iterator[OwnCluster]:
    cluster = request.param(2, timeout_s=PATIENCE_S)
    yield cluster
    cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "workers_leave"])
def test_has_about_its_size_and_leaves_nothing(cluster: OwnCluster, name: str) -> None:
    with Control(cluster.address) as control:
        recorder = Recorder(control, [], PATIENCE_S)
        with Client(cluster.address) as client, recorder.round():
            WORKLOADS[name](client, SIZE)
        ((segment,),) = recorder.rounds
        assert clean(control) is None
    expected = FEWER_TASKS.get(name, SIZE)
    assert expected * 0.8 <= segment.facts.tasks <= expected * 2.5


def test_half_of_the_workers_leave() -> None:
    with at_work(SimulatedCluster) as client:
        WORKLOADS["workers_leave"](client, SIZE)
        assert len(client.nthreads()) == 2
