"""Tests of seeds: of tests that are repeated under several, and of what is drawn from none."""

from __future__ import annotations

import pytest
from support import Project

from pytest_schedprof.formats.counted import read_decisions

VIRTUAL = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=4")

BODY = """
@pytest.mark.parametrize("tasks", [40])
@pytest.mark.schedprof("makespan <= 60s", cluster_options={"duration": "exponential(1s)"}, seeds=2)
def test_it(schedprof_scheduler, schedprof_seed, tasks):
    assert schedprof_seed in (0, 1)
    futures = schedprof_scheduler.client.map(inc, range(tasks), pure=False)
    wait(schedprof_scheduler.client.submit(sum, futures))

@pytest.mark.schedprof(cluster="local", workers=1)
def test_without_seeds(schedprof_scheduler):
    pass
"""


def hashes(project: Project) -> dict[str, str]:
    """Return the hashes of the logs of all tests of the only run, by the names of directories."""
    files = project.run_directory.glob("tests/*/scheduler.decisions.json")
    return {file.parent.name: read_decisions(file.read_bytes()).hash for file in files}


@pytest.mark.slow
def test_each_seed_is_a_test_that_can_be_run_again(project: Project) -> None:
    result = project.run_test(BODY, *VIRTUAL, "-k", "40")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*test_it?seed[*]-40?  2 seeds: 2 passed", "  decisions: makespan*to*"]
    )
    first = hashes(project)
    assert len(set(first.values())) == 2
    project.run_directory.rename(project.path / "earlier")
    again = project.run(*VIRTUAL, "-k", "seed1")
    again.assert_outcomes(passed=1, deselected=2)
    assert hashes(project).items() <= first.items()


def test_only_clusters_that_draw_have_seeds(project: Project) -> None:
    """A session's seeds are for the tests on such clusters; other tests must not ask for any."""
    body = BODY.replace(", seeds=2", "")
    options = ("--schedprof-cluster=virtual", "--schedprof-seeds=2", "--co", "-q")
    result = project.run_test(body, *options)
    result.stdout.fnmatch_lines(["*seed0-40?", "*seed1-40?", "*::test_without_seeds"])
    body = BODY.replace('cluster="local"', 'cluster="local", seeds=2')
    result = project.run_test(body, "-k", "without")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*has seeds=2, but nothing is drawn from a seed in*'local'*"])


NOTHING = """
def break_intake(dask_scheduler):
    import distributed.scheduler
    del distributed.scheduler._materialize_graph

def refuse(graph):
    raise AssertionError("of the test's own")

class Unreadable:
    def __reduce__(self):
        return refuse, (0,)

@pytest.mark.schedprof(seeds=2)
def test_broken(schedprof_scheduler):
    client = schedprof_scheduler.client
    client.run_on_scheduler(break_intake)
    wait(client.map(inc, range(10), pure=False))

@pytest.mark.schedprof(seeds=2)
def test_idle(schedprof_scheduler):
    pass

@pytest.mark.schedprof(seeds=2)
@pytest.mark.xfail(strict=True)
def test_expected(schedprof_scheduler):
    raise AssertionError

@pytest.mark.schedprof(seeds=2)
def test_own_errors(schedprof_scheduler):
    client = schedprof_scheduler.client
    wait(client.submit(refuse, 1))
    wait(client.submit(inc, Unreadable()))
"""


def test_a_search_that_ran_nothing_fails(project: Project) -> None:
    """The futures have the error of the scheduler, and the test never looks at them."""
    result = project.run_test(NOTHING, *VIRTUAL)
    result.assert_outcomes(failed=4, passed=2, xfailed=2)
    failed = (
        "*StuckError: schedprof: the scheduler failed at what a client sent, after * s of virtual"
    )
    result.stdout.fnmatch_lines(
        [f"{failed} time: NameError: name '_materialize_graph' is not defined"] * 2
    )
    result.stdout.fnmatch_lines(["schedprof: the scheduler finished no task under this seed*"] * 2)


DRAWN = """
import random, uuid
from uuid import uuid4

@pytest.mark.parametrize("number", range(2))
def test_it(schedprof_scheduler, number):
    client = schedprof_scheduler.client
    wait(client.submit(sum, client.map(inc, range(10), pure=False)))
    with open("drawn.txt", "a") as drawn:
        print(uuid.uuid1(), uuid.uuid4(), uuid4(), random.random(), os.urandom(9).hex(), file=drawn)
"""


@pytest.mark.slow
def test_what_a_test_draws_is_random_and_what_dask_draws_is_not(project: Project) -> None:
    seen = []
    for number in range(2):
        project.run_test(DRAWN, *VIRTUAL).assert_outcomes(passed=2)
        seen.append(hashes(project))
        project.run_directory.rename(project.path / f"earlier-{number}")
    assert seen[0] == seen[1]
    drawn = (project.path / "drawn.txt").read_text().split()
    assert len(drawn) == len(set(drawn)) == 2 * 2 * 5


SETS = """
import random
from pytest_schedprof.workloads import WORKLOADS

@pytest.mark.schedprof(cluster_options={"duration": "exponential(50ms)"})
@pytest.mark.parametrize("name", ["all_to_all", "cancelled", "moved_data", "workers_restart"])
def test_shipped(schedprof_scheduler, name):
    WORKLOADS[name](schedprof_scheduler.client, 60)

@pytest.mark.schedprof(workers=8)
def test_retired(schedprof_scheduler):
    client = schedprof_scheduler.client
    futures = client.map(inc, range(80))
    wait(futures)
    client.retire_workers(sorted(client.nthreads())[:4])

@pytest.mark.schedprof(workers=64, cluster_options={"duration": "exponential(500ms)"})
def test_restricted(schedprof_scheduler):
    client = schedprof_scheduler.client
    names = sorted(client.nthreads())
    chosen = [{*random.Random(number).sample(names, 30)} for number in range(150)]
    wait([client.submit(inc, number, workers=workers) for number, workers in enumerate(chosen)])

def test_own(schedprof_scheduler):
    wait([schedprof_scheduler.client.submit(inc, 1, key=key) for key in set("abcdefgh")])
"""


@pytest.mark.slow
def test_the_hash_seed_orders_only_sets_of_the_test_itself(
    project: Project, monkeypatch: pytest.MonkeyPatch, apart: None
) -> None:
    """A client sends lists of what were sets; the scheduler gets them in one order."""
    seen = []
    for seed in ("1", "random"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        project.run_test(SETS, *VIRTUAL).assert_outcomes(passed=7)
        results = project.results()
        windows = {name: result.backends[0].window for name, result in results.items()}
        graphs = {name: window.segments[0].graphs for name, window in windows.items()}
        own = graphs.pop("test_own")
        seen.append((own, graphs, [windows[name].hash for name in graphs]))
        project.run_directory.rename(project.path / f"earlier-{seed}")
    (own, *shipped), (another, *again) = seen
    assert shipped == again
    assert own != another
