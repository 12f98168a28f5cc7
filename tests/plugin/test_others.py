"""Tests of a scheduler that others use at the same time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client
from support import Project, wait_for

from pytest_schedprof.agent import facts
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control

SHARED = """
import subprocess, sys
from distributed import Client

OTHERS = '''
import sys
from distributed import Client, wait

with Client(sys.argv[1]) as client:
    wait(client.map(lambda x: x, range(int(sys.argv[2])), pure=False))
'''

@pytest.mark.parametrize("tasks", [300, 1])
@pytest.mark.schedprof("cpu <= 1s", backend="cputime")
def test_it(schedprof_scheduler, tasks):
    address = schedprof_scheduler.address
    with Client(address, set_as_default=False) as second:
        wait(second.map(lambda x: x, range(100), pure=False))
    wait(schedprof_scheduler.client.map(lambda x: x, range(100), pure=False))
    subprocess.run([sys.executable, "-c", OTHERS, address, str(tasks)], check=True)

@pytest.mark.schedprof(backend="cputime", rounds=2)
def test_nested(schedprof_scheduler):
    def ask_for_more():
        from distributed import get_client, secede
        secede()
        client = get_client()
        return sum(client.gather(client.map(lambda x: x, range(10), pure=False)))

    assert schedprof_scheduler.client.submit(ask_for_more, pure=False).result() == 45
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalProcesses]:
    """A scheduler that no session owns."""
    cluster = LocalProcesses(1, timeout_s=300)
    yield cluster
    cluster.close()


def plugins(control: Control) -> set[str]:
    """Names of the scheduler's plugins, which it calls at each transition."""

    def plugins_here(dask_scheduler: object = None) -> set[str]:
        return set(dask_scheduler.plugins)  # type: ignore[attr-defined]

    return set(control.call(plugins_here))


@pytest.mark.slow
def test_only_our_own_tasks_are_counted(project: Project, shared: LocalProcesses) -> None:
    """A task or two of others leave a verdict. A worker keeps the client that its task requested:
    what tasks submit is ours in every round."""
    with Control(shared.address) as control:
        before = plugins(control)
        result = project.run_test(SHARED, f"--schedprof-cluster={shared.address}")
        assert plugins(control) == before
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "*300 tasks of other clients finished during the test; all figures include them",
            "*inconclusive*cpu <= 1s*300 of 500 tasks belonged to other clients*",
        ]
    )
    results = project.results()
    (backend,) = results["test_it[300]"].backends
    assert backend.window.tasks == 200
    assert backend.window.others_tasks == 300
    assert 5 < backend.window.segments[0].transitions / 200 < 6.5
    (backend,) = results["test_it[1]"].backends
    assert backend.window.others_tasks == 1
    assert backend.limits[0].verdict.value == "pass"
    (backend,) = results["test_nested"].backends
    assert [segment.tasks for segment in backend.window.segments] == [11, 11]
    assert backend.window.others_tasks == 0


def test_what_others_had_before_is_theirs(shared: LocalProcesses) -> None:
    with Client(shared.address, set_as_default=False) as client, Control(shared.address) as control:
        kept = client.submit(sum, [1], pure=False)
        assert kept.result() == 1
        # To the scheduler, a client of another process differs only by its name.
        stranger = control.client_id.replace(control.client_id[-36:], "0" * 36)
        control.call(facts.open_window, stranger)
        assert client.submit(sum, [1, 2], pure=False).result() == 3
        del kept
        counters = control.call(facts.close_window, stranger)
    assert counters["others_tasks"] == 1


def test_nothing_is_left_by_a_session_that_vanished(shared: LocalProcesses) -> None:
    with Control(shared.address) as other:
        before = plugins(other)
        with Control(shared.address) as control:
            control.call(facts.open_window, control.client_id)
            assert plugins(other) - before
        wait_for(lambda: plugins(other) == before, "the plugin to go")
