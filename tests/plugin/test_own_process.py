"""Tests of schedulers that live in the pytest process, as in dask's own tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import injection
import pytest
from support import Finished, Project, shares_in

from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.model.limit import Verdict

DEFINED = """
import dask.array
from dask import delayed
from injection import plant, uproot

@pytest.fixture
def planted():
    # What dask#12299 mended: each task looked through the names of the whole graph.
    scan = "{k: v for k, v in subs.items() if k in self.dependencies and k != v}"
    plant("dask._task_spec", "Task.substitute", scan)
    yield
    uproot("dask._task_spec")

def define(size):
    delayed(list)(dask.array.zeros(size, chunks=1) + 1)

grows = pytest.mark.schedprof(
    "growth(client_bytecodes) <= 1.1", backend="counts", scale=[60, 120, 240]
)

@grows
def test_definition(schedprof_scale):
    define(schedprof_scale)

@grows
def test_quadratic(planted, schedprof_scale):
    define(schedprof_scale)

@pytest.mark.schedprof("client_bytecodes(dask.delayed:*) <= 10", backend="counts")
def test_dear():
    define(100)
"""

NEED_A_SCHEDULER = """
import dask.array

@pytest.mark.schedprof("growth(client_bytecodes) <= 2", "bytecodes <= 10", backend="counts",
    scale=[10, 20])
def test_limit(schedprof_scale):
    pass

@pytest.mark.schedprof("client_bytecodes <= 2", backend=["counts", "cputime"])
def test_backend():
    pass

@pytest.mark.schedprof("share(@comm) <= 10%", backend="cputime")
def test_samples():
    pass

@pytest.mark.schedprof("client_bytecodes <= 2", backend="counts")
def test_runs():
    dask.array.zeros(2, chunks=1).compute(scheduler="sync")

@pytest.mark.schedprof("client_bytecodes <= 2", backend="counts")
def test_idle():
    pass
"""

SESSION = {
    "test_definitions.py": DEFINED,
    "test_needs.py": NEED_A_SCHEDULER,
    "test_gen_cluster.py": """
import dask
from distributed.utils_test import gen_cluster

TRANSITIONS = "calls(distributed.scheduler:SchedulerState._transition)"

@pytest.mark.parametrize((), [
    pytest.param(marks=pytest.mark.schedprof(
        "share(@transitions) <= 99%", backend=name, rate=200), id=name)
    for name in ("pyspy", "cputime")
])
@gen_cluster(client=True, **PATIENT)
async def test_samples(c, s, a, b):
    for _ in range(3):
        await wait(c.map(inc, range(150), pure=False))

def counted(name, most, count):
    mark = pytest.mark.schedprof(f"{TRANSITIONS} <= {most}", backend="counts")
    return pytest.param(count, marks=mark, id=name)

@pytest.mark.parametrize("count", [
    counted("one", 6.1, 50), counted("another", 6.1, 50), counted("broken", 4, 10)
])
@gen_cluster(client=True, **PATIENT)
async def test_counts(c, s, a, b, count):
    for _ in range(2):
        await wait(c.map(inc, range(count), pure=False))

@pytest.mark.schedprof(
    backend="viztracer", options={"trace_sparse": "distributed.Scheduler.handle_task_finished"}
)
@gen_cluster(client=True, **PATIENT)
async def test_traced(c, s, a, b):
    await wait(c.map(inc, range(20), pure=False))

@pytest.mark.schedprof("bytes_in <= 100kB", "messages_in <= 20", backend="counts")
@gen_cluster(client=True, **PATIENT)
async def test_data_that_the_scheduler_never_saw(c, s, a, b):
    await c.scatter([bytes(5_000_000)], direct=True)
    await wait(c.map(inc, range(10)))

@pytest.mark.schedprof("share(@graph-intake) <= 40%", "share(@comm) <= 1%", backend="cputime")
@gen_cluster(client=True, **PATIENT)
async def test_a_graph_that_the_test_builds(c, s, a, b):
    began = time.process_time()
    while time.process_time() - began < 1:
        dask.delayed(sum)([dask.delayed(inc)(i) for i in range(100)])
    await wait(c.map(inc, range(20)))

def test_then():
    from distributed import Scheduler
    assert Scheduler.close.__module__ == "distributed.scheduler"
    names = (Scheduler.close.__code__.co_filename, Scheduler._clear_task_state.__code__.co_filename)
    assert all("distributed" in name for name in names)
""",
    "test_local_schedulers.py": """
import dask
from dask import delayed

@pytest.mark.schedprof("share(dask.local:get_async) <= 100%", "growth(cpu) <= 3",
                       backend="cputime", rate=500)
@pytest.mark.parametrize("scheduler", ["threads", "processes", "sync"])
def test_local(scheduler):
    with dask.config.set(num_workers=2):
        dask.compute([delayed(inc)(i) for i in range(1000)], scheduler=scheduler)
""",
    "test_threads.py": """
from distributed import Client
from distributed.utils_test import gen_cluster

@pytest.mark.schedprof(backend="pyspy", rate=200)
def test_thread():
    with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
        wait(client.map(inc, range(1500), pure=False))
        wait(client.map(inc, range(1500), pure=False))

@pytest.mark.schedprof(backend="cputime")
def test_elsewhere():
    with Client(os.environ["ELSEWHERE"]) as client:
        client.scheduler_info()

@pytest.fixture(scope="module")
def idle():
    with Client(processes=False, n_workers=1, dashboard_address=":0", set_as_default=False) as made:
        futures = made.map(inc, range(10), pure=False)
        made.gather(futures)
        yield futures  # which are not forgotten in the middle of a test

def test_before(idle):
    pass

@pytest.mark.schedprof(backend="cputime", rate=200)
@gen_cluster(client=True, **PATIENT)
async def test_beside_an_idle_one(c, s, a, b):
    await wait(c.map(inc, range(100), pure=False))
""",
    "test_unittest.py": """
import dask, unittest

@pytest.mark.schedprof("calls <= 1", backend="counts", rounds=3)
class Case(unittest.TestCase):
    def test_fails(self):
        dask.delayed(inc)(1).compute(scheduler="sync")
        raise AssertionError("of the body")

    def test_skips(self):
        dask.delayed(inc)(1).compute(scheduler="sync")
        self.skipTest("in the body")
""",
}


@pytest.fixture(scope="module")
def session(
    tmp_path_factory: pytest.TempPathFactory, cluster: LocalProcesses
) -> Iterator[Finished]:
    """A session under dask's own leak checks, and with warnings as errors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELSEWHERE", cluster.address)
        patch.setenv("PYTHONPATH", str(Path(injection.__file__).parent), prepend=os.pathsep)
        yield Finished(tmp_path_factory.mktemp("session"), SESSION)


@pytest.mark.slow
def test_nothing_stays_in_dask_and_an_idle_scheduler_in_a_thread_is_no_matter(
    session: Finished,
) -> None:
    """A session-wide client may have a scheduler that worked earlier, but not during a test."""
    others = {name for name, outcome in session.outcomes.items() if outcome != "passed"}
    assert others == {
        *("test_counts[broken]", "test_elsewhere", "test_quadratic", "test_dear"),
        *("test_limit", "test_backend", "test_samples", "Case::test_fails", "Case::test_skips"),
    }
    assert len(session.outcomes) == 26


@pytest.mark.parametrize("name", ["pyspy", "cputime"])
def test_samples_of_gen_cluster_are_told_apart(session: Finished, name: str) -> None:
    record = session.results()[f"test_samples[{name}]"]
    assert record.cluster.kind == "in-process"
    (backend,) = record.backends
    assert backend.window.tasks == 450
    assert backend.window.segments[0].transitions > 4 * 450
    shares = shares_in(record)
    functions = {share.function: share.share.value for share in shares.functions}
    assert functions["distributed.scheduler:SchedulerState._transition"] > 0.02
    assert not any(owner.owner in ("worker", "client") for owner in shares.owners)
    assert shares.idle_samples > shares.busy_samples / 5


def test_counts_of_gen_cluster_are_exact_and_a_broken_limit_fails_it(session: Finished) -> None:
    session.stdout.fnmatch_lines(["*limit broken: calls(distributed.scheduler:*"])
    first, second = (
        session.results()[f"test_counts[{name}]"].backends[0].limits[0].findings[0].estimate.value
        for name in ("one", "another")
    )
    assert 5 < first < 6.1
    assert second == pytest.approx(first, rel=0.001)


def test_a_function_of_a_scheduler_in_the_tests_process_is_traced(session: Finished) -> None:
    (backend,) = session.results()["test_traced"].backends
    assert backend.costs
    named = {cost.function for cost in backend.costs.functions}
    assert "distributed.scheduler:Scheduler.handle_task_finished" in named


def test_figures_are_the_schedulers_and_not_the_tests_or_the_workers(session: Finished) -> None:
    session.stdout.fnmatch_lines(["note: in * tests the scheduler validated its state *"])
    results = session.results()
    counted = results["test_data_that_the_scheduler_never_saw"]
    sampled = results["test_a_graph_that_the_test_builds"]
    assert counted.backends[0].costs
    whole = counted.backends[0].costs.whole
    assert whole["messages_in"] != whole["messages_out"]
    verdicts = {limit.limit: limit for limit in sampled.limits}
    assert verdicts["share(@graph-intake) <= 40%"].verdict is not Verdict.FAIL
    comm = verdicts["share(@comm) <= 1%"]
    assert comm.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", ["threads", "processes", "sync"])
def test_dasks_local_schedulers(session: Finished, name: str) -> None:
    result = session.results()[f"test_local[{name}]"]
    # Collecting the results takes a few more tasks.
    assert 1000 <= result.backends[0].window.tasks <= 1005
    shares = shares_in(result)
    functions = {share.function: share.share.value for share in shares.functions}
    # The test's own code is not in the denominator.
    assert functions["dask.local:get_async"] > 0.9, result.test_id
    assert any(owner.owner == "local-scheduler" for owner in shares.owners)


def test_scheduler_of_a_local_cluster_in_a_thread(session: Finished) -> None:
    result = session.results()["test_thread"]
    assert result.backends[0].window.tasks == 3000
    functions = {share.function for share in shares_in(result).functions}
    # One long call for 1500 tasks. On a core that many processes share py-spy gets its turn only
    # when short calls are over, and may see none of 3000.
    assert "distributed.scheduler:Scheduler.update_graph" in functions


def test_tasks_are_the_tests_own_beside_a_scheduler_that_lives_on(session: Finished) -> None:
    """`gen_cluster` makes distributed forget the other one meanwhile."""
    result = session.results()["test_beside_an_idle_one"]
    assert result.backends[0].window.tasks == 100


def test_a_client_of_a_scheduler_elsewhere_gets_other_advice(session: Finished) -> None:
    session.stdout.fnmatch_lines(
        ["*client's scheduler is in another process*fixture schedprof_cluster, and give it the *"]
    )
    (trouble,) = session.results()["test_elsewhere"].troubles
    assert "no scheduler ran" not in trouble


MARKED_FROM_ELSEWHERE = """
import unittest
from distributed.utils_test import gen_cluster

pytestmark = pytest.mark.schedprof(backend="cputime")

@gen_cluster(client=True, **PATIENT)
async def test_with_a_scheduler(c, s, a, b):
    await wait(c.map(inc, range(100), pure=False))

def test_without():
    pass

@pytest.mark.schedprof(backend="cputime")
def test_marked():
    pass

@pytest.mark.schedprof(backend="counts")
class TestMethods:
    def test_without(self):
        pass

    @pytest.mark.schedprof(rounds=2)
    def test_marked_itself(self):
        pass

@pytest.mark.schedprof(backend="counts", strict=True)
class TestStrict:
    def test_strictly(self):
        pass

@pytest.mark.schedprof(backend="counts")
class Case(unittest.TestCase):
    def test_without(self):
        pass

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.schedprof)])
def test_parameters(n):
    pass

@pytest.mark.xfail(strict=True)
def test_that_fails():
    raise AssertionError
"""


@pytest.mark.slow
def test_only_a_marker_of_its_own_demands_a_scheduler(project: Project, apart: None) -> None:
    """A marker on a module or a class, or from a conftest, meets tests without a scheduler too."""
    conftest = "def pytest_itemcollected(item): item.add_marker('schedprof')"
    (project.path / "conftest.py").write_text(conftest)
    result = project.run_test(MARKED_FROM_ELSEWHERE, "-v")
    result.assert_outcomes(passed=5, failed=4, xfailed=1)
    missing = "*no scheduler ran in its own process*"
    result.stdout.fnmatch_lines(
        [
            "_* test_marked _*",
            "*no scheduler ran in its own process; give it the fixture *",
            "_* TestMethods.test_marked_itself _*",
            missing,
            "_* TestStrict.test_strictly _*",
            missing,
            "_* test_parameters?2? _*",
            missing,
            "*= schedprof =*",
            "not profiled: 5 tests ran no scheduler in the test's process, and no marker of th*",
            "  test_it.py::TestMethods::test_without",
        ]
    )
    assert "test_with_a_scheduler" in project.results()
    assert len(project.results()) == 5  # with the four that failed


LEFT_EARLY = """
@pytest.mark.schedprof(backend="counts")
@pytest.mark.parametrize("how", ["skip", "xfail", "fail"])
def test_leaves(how):
    getattr(pytest, how)("before there is a scheduler")

@pytest.mark.schedprof(backend="counts")
@pytest.mark.xfail(strict=True)
def test_expected():
    raise AssertionError
"""


def test_a_body_that_left_early_need_not_have_had_a_scheduler(project: Project) -> None:
    result = project.run_test(LEFT_EARLY, "-rs")
    result.assert_outcomes(skipped=1, xfailed=2, failed=1)
    result.stdout.no_fnmatch_line("*no scheduler*")


def test_a_test_of_unittest_that_fails_has_no_further_round(session: Finished) -> None:
    outcomes = session.outcomes
    assert (outcomes["Case::test_fails"], outcomes["Case::test_skips"]) == ("failed", "skipped")
    result = session.results()["Case::test_fails"]
    assert not result.is_whole
    assert result.backends[0].window.rounds == 1


@pytest.mark.slow
def test_definition_of_a_graph_needs_no_scheduler(session: Finished, project: Project) -> None:
    session.stdout.fnmatch_lines_random(
        [
            "*limit broken: growth(client_bytecodes) <= 1.1: the cost of the client grows as *",
            "*limit broken: client_bytecodes(dask.delayed:[*]) <= 10: dask.delayed:* a round*",
        ]
    )
    results = session.results()
    linear, quadratic = (
        results[name].limits[0].findings[0].estimate.value
        for name in ("test_definition", "test_quadratic")
    )
    assert 0.8 < linear < 1.1
    assert 1.2 < quadratic < 2
    # Other backends measure schedulers: the session that chooses one leaves these tests out.
    other = project.run_test(DEFINED, "--schedprof=cputime")
    other.assert_outcomes(passed=3)
    other.stdout.fnmatch_lines(["not profiled: 3 tests ran no scheduler in the test's process*"])


def test_what_needs_a_scheduler_is_refused_by_name(session: Finished) -> None:
    session.stdout.fnmatch_lines_random(
        [
            "*no scheduler ran in its own process, and limit 'bytecodes <= 10' needs one; give it*",
            "*no scheduler ran in its own process, and backend cputime needs one; give it the *",
            "*no scheduler ran in its own process; give it the fixture *",
            "*client_bytecodes <= 2: the client is counted * in tests that run no scheduler; *",
        ]
    )
    for name in ("test_runs", "test_idle"):
        (limit,) = session.results()[name].limits
        assert limit.verdict is Verdict.INCONCLUSIVE
        assert "more work" not in limit.note
