"""Tests of the end of clusters."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path

import pytest

from pytest_schedprof.clusters import fork_server
from pytest_schedprof.clusters.own import LocalProcesses, SimulatedCluster
from pytest_schedprof.control.control import Control


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


class Sign:
    """Makes a file, also when there are no modules any more."""

    def __init__(self, *path: str) -> None:
        self.path, self.open, self.how = os.path.join(*path), os.open, os.O_CREAT

    def leave(self) -> None:
        self.open(self.path, self.how)


class SignOfClearing(Sign):
    def __del__(self) -> None:
        self.leave()


def leave_signs(directory: str) -> None:
    """Note which of the things that an interpreter does at its end are done; runs there."""

    def outlive() -> None:
        threading.main_thread().join()
        Sign(directory, "thread").leave()

    atexit.register(Sign(directory, "exit").leave)
    threading.Thread(target=outlive).start()
    vars(threading)["of_a_test"] = SignOfClearing(directory, "cleared")


@pytest.mark.slow
@pytest.mark.parametrize("is_forked", [True, False])
def test_threads_and_exit_functions_end_but_nothing_is_cleared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_forked: bool
) -> None:
    """Clearing the interpreter is what takes most of the CPU time of a short cluster."""
    monkeypatch.setattr(fork_server, "is_possible", lambda: is_forked)
    cluster = LocalProcesses(0, timeout_s=60)
    try:
        with Control(cluster.address) as control:
            control.call(leave_signs, str(tmp_path))
        (child,) = cluster._children
        child.hang_up()
        assert child.process.wait(30) == 0
    finally:
        cluster.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["exit", "thread"]
