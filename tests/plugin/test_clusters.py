"""Tests of the user's own clusters, given by the overridden fixture, and of options of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import dask
import distributed
import pytest
from distributed import Client, Event
from support import INI, Project, shares_in, somebodys_scheduler

from pytest_schedprof.clusters.own import LocalProcesses

GIVEN = """
import distributed

@pytest.fixture(scope={scope!r})
def schedprof_cluster():
    value = {value}
    yield value
    if not isinstance(value, str):
        value.close()

@pytest.mark.schedprof
@pytest.mark.parametrize("time", [1, 2])
def test_{name}(schedprof_scheduler, time):
    assert schedprof_scheduler.address == {address!r}
    burn(schedprof_scheduler, 0.1)
"""


@pytest.mark.slow
def test_fixture_of_the_user(project: Project, tmp_path: Path) -> None:
    with somebodys_scheduler(tmp_path, "--host", "127.0.0.1") as address:
        values = {
            "address": repr(address),
            "client": f"distributed.Client({address!r}, set_as_default=False)",
        }
        for scope, kind in product(("function", "session"), values):
            name = f"{scope}_{kind}"
            body = GIVEN.format(scope=scope, value=values[kind], name=name, address=address)
            project.write(body, f"test_{name}.py")
        project.run("--schedprof=cputime").assert_outcomes(passed=8)
    assert len(project.run_record().tests) == 8
    for record in project.results().values():
        assert record.cluster.kind == "attached"
        assert shares_in(record).busy_samples


@pytest.fixture
def others() -> Iterator[Client]:
    """Client of another user of the same cluster, started outside of the project."""
    with (
        closing(LocalProcesses(2, timeout_s=300)) as cluster,
        Client(cluster.address, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.slow
def test_what_others_have_on_the_scheduler_is_left_alone_and_what_is_left_is_told(
    others: Client, project: Project
) -> None:
    event = Event("done", client=others)
    published, kept = others.map(lambda x: x, range(2), pure=False)
    running = others.submit(lambda: Event("done").wait())
    others.publish_dataset(published, name="theirs")
    result = project.run_test(
        """
from dask import delayed
from distributed import fire_and_forget

@pytest.mark.parametrize("number", range(2))
def test_it(schedprof_scheduler, number):
    client = schedprof_scheduler.client
    assert client.list_datasets() == ("theirs",)
    client.publish_dataset(client.persist(delayed(lambda: number)()), name="mine")
    assert client.gather(client.map(lambda x: x, range(10))) == list(range(10))

def test_that_leaves_a_task(schedprof_scheduler):
    fire_and_forget(schedprof_scheduler.client.submit(time.sleep, 600))
""",
        f"--schedprof-cluster={others.scheduler_info()['address']}",
        "--log-cli-level=INFO",
    )
    result.assert_outcomes(passed=3)
    (told,) = [line for line in result.outlines if "the next test gets a new cluster" in line]
    assert "still knows 1 tasks" in told
    assert others.list_datasets() == ("theirs",)
    event.set()
    assert others.gather([published, kept, running]) == [0, 1, True]


OF_ONE_CLUSTER = """
import psutil, socket

@pytest.fixture
def taken():
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 8787))
        except OSError:
            pass  # by somebody else, which is as good
        yield

def test_usual_port(taken, schedprof_scheduler):
    assert len(schedprof_scheduler.workers) == 4

@pytest.mark.parametrize("how", ["retire", "close", None])
def test_one_worker_less(schedprof_scheduler, how):
    client, workers = schedprof_scheduler.client, schedprof_scheduler.workers
    assert len(workers) == 4
    if how == "retire":
        client.retire_workers([workers[0]])
    elif how == "close":
        close = lambda dask_worker: dask_worker.loop.add_callback(dask_worker.close)
        client.run(close, workers=[workers[0]])
    while how and workers[0] in schedprof_scheduler.workers:
        time.sleep(0.01)
    # The other workers are asked, not only the scheduler: it may have yet to hear of an end.
    assert set(client.run(os.getpid)) == set(workers[how is not None:])
    assert client.gather(client.map(inc, range(10))) == list(range(1, 11))

@pytest.mark.schedprof("calls(distributed.scheduler:Scheduler.restart) <= 1", backend="counts")
def test_restart(schedprof_scheduler):
    client, workers = schedprof_scheduler.client, schedprof_scheduler.workers
    assert len(client.gather(client.map(inc, range(100)))) == 100
    client.restart(timeout=200)
    assert len(schedprof_scheduler.workers) == 4
    assert not {*workers} & {*schedprof_scheduler.workers}
    assert len(client.gather(client.map(inc, range(10)))) == 10

@pytest.fixture
def before(schedprof_scheduler):
    client = schedprof_scheduler.client
    client.gather(client.map(inc, range(10)))

@pytest.mark.schedprof("calls(distributed.scheduler:Scheduler.update_graph) <= 1",
                       backend="counts")
def test_backwards(schedprof_scheduler, before):
    assert len(schedprof_scheduler.workers) == 4
    def forget(dask_scheduler):
        dask_scheduler.task_prefixes.clear()
    schedprof_scheduler.client.run_on_scheduler(forget)

@pytest.mark.schedprof(backend="cputime", cluster_options={"worker.resources": "{'GPU': 2}"})
def test_resources(schedprof_scheduler):
    client = schedprof_scheduler.client
    assert client.submit(inc, 1, resources={"GPU": 1}).result(timeout=200) == 2
"""


@pytest.mark.slow
def test_what_tests_do_to_their_cluster(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual port is not needed; the next test has all workers; a restart brings new ones.

    Tasks are counted through it. Counters that run backwards are trouble and no verdict, and
    options of workers reach them.
    """
    # distributed warns when it uses another port.
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    result = project.run_test(OF_ONE_CLUSTER)
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["schedprof: the scheduler's counters ran backwards, *"])
    results = project.results()
    assert not results["test_backwards"].backends
    (backend,) = results["test_restart"].backends
    assert backend.window.tasks == 110


def test_modules_beside_the_tests_do_not_stand_for_pythons_own(project: Project) -> None:
    directory = project.path / "below"
    directory.mkdir()
    for name in ("queue", "calendar", "logging"):
        (directory / f"{name}.py").write_text("raise ImportError('not the one you want')")
    # The session has imported them already; processes that start later must not find the others.
    (project.path / "conftest.py").write_text("import calendar, logging, queue, distributed")
    project.write(
        """
def test_it(schedprof_scheduler):
    assert inc.__module__ == "test_it"
    assert schedprof_scheduler.client.submit(inc, 1).result() == 2
""",
        "below/test_it.py",
    )
    project.run().assert_outcomes(passed=1)


WITHOUT_PIDFDS = """
import os, subprocess
del os.pidfd_open
subprocess._CAN_USE_PIDFD_OPEN = False  # since 3.15
"""


@pytest.mark.parametrize("is_forked", [True, False])
def test_the_scheduler_is_of_the_checkout_from_which_the_tests_import(
    project: Project, monkeypatch: pytest.MonkeyPatch, is_forked: bool
) -> None:
    (project.path / "checkout").mkdir()
    for package in (dask, distributed):
        place = project.path / "checkout" / package.__name__
        place.symlink_to(Path(str(package.__file__)).parent)
    if is_forked:  # found by the directory in which the session began
        monkeypatch.setenv("PYTHONPATH", "checkout")
    else:
        (project.path / "pytest.ini").write_text(f"{INI}pythonpath = checkout\n")
        (project.path / "conftest.py").write_text(WITHOUT_PIDFDS)
    project.is_apart = True
    project.write(
        """
def files():
    import dask, distributed
    return dask.__file__, distributed.__file__

def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    assert "checkout" in files()[1]
    assert client.run_on_scheduler(files) == files()
    assert set(client.run(files).values()) == {files()}
"""
    )
    project.run("test_it.py").assert_outcomes(passed=1)


def test_start_up_that_fails_names_the_exception(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "nonsense")
    result = project.run_test("def test_it(schedprof_scheduler):\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["schedprof: the scheduler's process * exited with 1 while starting: *Error: *nonsense*"]
    )


BY_MARKER = """
from urllib.error import HTTPError
from urllib.request import urlopen

@pytest.mark.schedprof("calls(distributed.scheduler:SchedulerState._transition) <= 6.1",
                       backend="counts", cluster="simulated", workers=30, threads=2,
                       cluster_options={"duration": "uniform(1ms, 2ms)", "seed": 3})
def test_simulated(schedprof_scheduler):
    futures = schedprof_scheduler.client.map(inc, range(100), pure=False)
    wait(futures)
    assert len(schedprof_scheduler.workers) == 30
    assert type(futures[0].result()).__name__ == "Placeholder"
    with pytest.raises(HTTPError) as caught:  # a scheduler of ours has no dashboard
        urlopen(schedprof_scheduler.client.dashboard_link)
    caught.value.close()  # Python 3.14 warns of one that is not

OPTIONS = {"tls": True, "config.distributed.scheduler.work-stealing": False}

@pytest.mark.parametrize((), [
    pytest.param(id=kind, marks=pytest.mark.schedprof(
        backend="cputime", cluster=kind, workers=3, cluster_options=OPTIONS))
    for kind in ("local", "simulated")
])
def test_parts(schedprof_scheduler):
    client = schedprof_scheduler.client
    wait(client.map(inc, range(100), pure=False))
    assert all(worker.startswith("tls://") for worker in schedprof_scheduler.workers)
    extensions = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.extensions))
    assert "stealing" not in extensions
"""


@pytest.mark.slow
def test_clusters_by_marker_whose_parts_speak_tls_and_have_dasks_configuration(
    project: Project,
) -> None:
    result = project.run_test(BY_MARKER, "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*100 tasks in * s, * us of scheduler CPU per task, *% of a core"])
    clusters = {name: record.cluster for name, record in project.results().items()}
    simulated = clusters.pop("test_simulated")
    assert simulated is not None
    assert simulated.size == "simulated, 30 workers, 60 threads"
    for cluster in clusters.values():
        assert cluster is not None
        assert cluster.address.startswith("tls://")
