"""Tests whose scheduler lives in the pytest process, as dask's own do."""

from __future__ import annotations

import pytest
from support import Project, shares_in

pytestmark = pytest.mark.usefixtures("apart")  # where nothing else of dask's is going on

GEN_CLUSTER = """
from distributed.utils_test import gen_cluster

@pytest.mark.schedprof(LIMITS backend="NAME", rate=200)
@gen_cluster(client=True)
async def test_it(c, s, a, b):
    for _ in range(3):
        await wait(c.map(inc, range(300), pure=False))
"""


def gen_cluster_test(name: str, *limits: str) -> str:
    written = "".join(f"{limit!r}, " for limit in limits)
    return GEN_CLUSTER.replace("NAME", name).replace("LIMITS ", written)


@pytest.mark.parametrize("name", ["pyspy", "cputime"])
def test_samples_of_gen_cluster_are_told_apart(project: Project, name: str) -> None:
    """Under dask's own leak checks, and with warnings as errors."""
    limit = "share(@transitions) <= 99%"
    project.run_test(gen_cluster_test(name, limit)).assert_outcomes(passed=1)
    record = project.result()
    assert record.cluster is not None
    assert record.cluster.kind == "in-process"
    (backend,) = record.backends
    assert backend.window.tasks == 900
    assert backend.window.segments[0].transitions > 4 * 900
    shares = shares_in(record)
    functions = {each.function: each.share.value for each in shares.functions}
    assert functions["distributed.scheduler:SchedulerState._transition"] > 0.02
    assert not any(each.owner in ("worker", "client") for each in shares.owners)
    assert shares.idle_samples > shares.busy_samples / 5


def test_counts_of_gen_cluster_are_exact(project: Project) -> None:
    limit = "calls(distributed.scheduler:SchedulerState._transition) <= 6.1"
    body = gen_cluster_test("counts", limit)
    project.write(body + body.replace("test_it", "test_again"))
    project.run().assert_outcomes(passed=2)
    first, again = (
        result.backends[0].limits[0].findings[0].estimate.value
        for result in project.results().values()
    )
    assert 5 < first < 6.1
    assert again == pytest.approx(first, rel=0.001)


def test_broken_limit_fails_a_gen_cluster_test(project: Project) -> None:
    limit = "calls(distributed.scheduler:SchedulerState._transition) <= 5"
    result = project.run_test(gen_cluster_test("counts", limit))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*limit broken: calls(distributed.scheduler:*"])


@pytest.mark.slow
def test_scheduler_of_a_local_cluster_in_a_thread(project: Project) -> None:
    project.run_test(
        """
from distributed import Client

@pytest.mark.schedprof(rate=200)
def test_it():
    with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
        wait(client.map(inc, range(500), pure=False))
        wait(client.map(inc, range(500), pure=False))
"""
    ).assert_outcomes(passed=1)
    (backend,) = project.result().backends
    assert backend.window.tasks == 1000
    functions = {each.function for each in shares_in(project.result()).functions}
    assert "distributed.scheduler:Scheduler.handle_task_finished" in functions


def test_nothing_of_the_plugin_stays_in_dask(project: Project) -> None:
    project.run_test(
        gen_cluster_test("cputime")
        + """
def test_then():
    from distributed import Scheduler
    assert Scheduler.close.__module__ == "distributed.scheduler"
    names = (Scheduler.close.__code__.co_filename, Scheduler._clear_task_state.__code__.co_filename)
    assert all("distributed" in name for name in names)
"""
    ).assert_outcomes(passed=2)


def test_without_any_scheduler_the_marker_is_a_mistake(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof(backend="cputime")
def test_it():
    pass
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no scheduler ran in its own process; give it the fixture *"])


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["threads", "processes", "sync"])
def test_dasks_local_schedulers(project: Project, scheduler: str) -> None:
    project.run_test(
        f"""
import dask
from dask import delayed

@pytest.mark.schedprof("share(dask.local:get_async) <= 100%", "growth(cpu) <= 3",
                       backend="cputime", rate=500)
def test_it():
    with dask.config.set(num_workers=2):
        dask.compute([delayed(inc)(i) for i in range(5000)], scheduler={scheduler!r})
"""
    ).assert_outcomes(passed=1)
    (backend,) = project.result().backends
    # Results that are put together are a task or two more.
    assert 5000 <= backend.window.tasks <= 5005
    shares = shares_in(project.result())
    functions = {each.function: each.share.value for each in shares.functions}
    assert functions["dask.local:get_async"] > 0.9  # of what is not the test's own
    assert any(each.owner == "local-scheduler" for each in shares.owners)


def test_an_idle_scheduler_in_another_thread_is_no_matter(project: Project) -> None:
    """As a client that the whole session has; it worked before, and not in this test."""
    project.run_test(
        """
from distributed import Client

@pytest.fixture(scope="module")
def elsewhere():
    with Client(processes=False, n_workers=1, dashboard_address=":0", set_as_default=False) as made:
        made.gather(made.map(inc, range(10), pure=False))
        yield made

def test_before(elsewhere):
    pass
"""
        + gen_cluster_test("cputime")
        + """
def test_after(elsewhere):
    pass
"""
    ).assert_outcomes(passed=3)
