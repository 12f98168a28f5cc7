"""Tests of the end of simulated clusters."""

from __future__ import annotations

import pytest

from pytest_schedprof.clusters.simulated import SimulatedCluster


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_scheduler_that_ends_does_not_tell_workers_of_others_that_leave() -> None:
    options = {"config.logging.distributed": "info"}
    cluster = SimulatedCluster(50, timeout_s=90, options=options)
    try:
        with cluster._children[-1].log.open() as stream:  # each process removes the file
            ended = []
            for child in reversed(cluster._children):  # workers could leave before it ends
                child.hang_up()
                ended.append(child.process.wait(30))
            log = stream.read()
    finally:
        cluster.close()
    assert ended == [0, 0]
    assert "Closing scheduler" in log
    assert "Remove worker" not in log
