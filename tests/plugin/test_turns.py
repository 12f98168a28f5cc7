"""Tests of A/B sessions: each test runs in turns on two schedulers."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import injection
import pytest
from support import Project, environment_behind

from pytest_schedprof.cli.main import main
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.formats.counted import read_decisions
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.records import read_record

AT_LEISURE = "--schedprof-budget=500"
"""Time for all rounds that decide, on a busy machine too."""

COUNTS = ("--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4")

TASKS = """
@pytest.mark.schedprof
def test_tasks(schedprof_scheduler):
    from distributed import get_client
    assert get_client() is schedprof_scheduler.client
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

FIXTURE = """
@pytest.fixture
def client(schedprof_scheduler):
    return schedprof_scheduler.client

@pytest.mark.schedprof
def test_with_fixture(schedprof_scheduler, client):
    pass
"""

PLANTING = f"""
import sys

sys.path.append({str(Path(injection.__file__).parent)!r})

def dask_setup(scheduler):
    # The side under test alone is changed.
    if sys.prefix == {sys.prefix!r}:
        from injection import plant
        plant("distributed.scheduler", "SchedulerState._transition", "_ = None; " * 9)
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of another environment, with the packages of this one."""
    place = tmp_path_factory.mktemp("other")
    environment_behind(place)
    return place / "bin" / "python"


@pytest.mark.slow
def test_a_slower_function_is_found(
    project: Project, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of the scheduler under test costs 10 % more bytecodes."""
    preload = project.path / "planting.py"
    preload.write_text(PLANTING)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", json.dumps([str(preload)]))
    options = (f"--schedprof-against={other}", AT_LEISURE)
    result = project.run_test(TASKS, *COUNTS, *options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"schedprof: against dask *, distributed * on Python *: {other}",
            "schedprof: regressed against *: bytecodes of "
            "distributed.scheduler:SchedulerState._transition: * (+*%)*",
            f"compared with {other}: * regressed, * the same in 1 test",
        ]
    )
    assert "accept:" not in result.stdout.str()
    assert main(["accept", "--reason", "x", "--run", str(project.run_directory)]) == 1
    record = project.result()
    (backend,) = record.backends
    assert backend.window.rounds == 3  # enough to show which counts are steady
    (place,) = (project.run_directory / "tests").iterdir()
    kept = read_record(place / "against" / "result.json", Result)
    assert kept.backends[0].window.rounds == 3
    assert (place / "against" / kept.backends[0].artifacts[0]).exists()
    assert main(["compare", str(place / "against"), str(place)]) == 1
    assert main(["compare", str(place), str(place / "against")]) == 0


@pytest.mark.slow
def test_the_same_code_decides_the_same_and_relative_limits_are_held_against_the_other_side(
    project: Project, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of the other side's interpreter leaves no trace on the cluster in virtual time."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.is_apart = True
    limit = '"calls(distributed.scheduler:*) <= baseline * 1.01"'
    marker = f'schedprof({limit}, cluster_options={{"duration": "exponential(1s)"}})\n'
    backends = ("--schedprof=counts,decisions", *COUNTS[1:], AT_LEISURE)
    options = (*backends, f"--schedprof-against={other}", "--schedprof-strict")
    body = TASKS.replace("schedprof\n", marker, 1) + FIXTURE
    result = project.run_test(body, *options)
    result.assert_outcomes(passed=1, errors=1)
    # A fixture that knows one scheduler alone is refused.
    result.stdout.fnmatch_lines(
        ["*fixture 'client' uses schedprof_scheduler, but is set up once for*"]
    )
    result.stdout.fnmatch_lines(
        ["limits: 1 passed", f"compared with {other}: * the same in 1 test"]
    )
    logs = [
        [read_decisions(file.read_bytes()).hash for file in sorted(place.glob("*.decisions.json"))]
        for place in project.run_directory.glob("tests/**/")
        if list(place.glob("*.decisions.json"))
    ]
    assert len(logs) == 2
    assert logs[0] == logs[1]
    record = project.results()["test_tasks"]
    (decided,) = [each for each in record.comparisons if each.backend == "decisions"]
    assert (decided.changes, decided.same) == ((), 10)
    # Though the durations of each round are others:
    assert [backend.window.rounds for backend in record.backends] == [3, 3]


@pytest.mark.slow
def test_times_are_compared_in_turns_within_the_budget(project: Project, other: Path) -> None:
    options = ("--schedprof=cputime", "--schedprof-workers=4", f"--schedprof-against={other}")
    project.run_test(TASKS, *options, "--schedprof-budget=4")
    assert not project.result().troubles  # the verdict on identical code is random
    assert project.result().baseline == str(other)
    (backend,) = project.result().backends
    (page,) = project.run_directory.glob("tests/*/index.html")
    on_the_other_side = read_record(page.parent / "against" / "result.json", Result)
    assert on_the_other_side.backends[0].window.rounds == backend.window.rounds
    assert f"compared with {other}" in page.read_text()  # a flame graph of both sides


@pytest.mark.slow
def test_what_was_measured_before_an_interrupt_is_kept(project: Project, other: Path) -> None:
    project.write(
        TASKS
        + """
    with open("rounds", "a+") as rounds:
        rounds.write("x")
        rounds.seek(0)
        count = len(rounds.read())
    if count == 7:
        print("interrupt me", flush=True)
        time.sleep(600)
""",
    )
    against = f"--schedprof-against={other}"
    options = " ".join([*COUNTS, AT_LEISURE, against, "--schedprof-rounds=9"])
    (project.path / "tox.ini").write_text(
        (project.path / "tox.ini").read_text().replace("addopts =", f"addopts = {options}")
    )
    with project.running("interrupt me") as process:
        process.send_signal(signal.SIGINT)
        process.communicate()
    record = project.result()
    assert record.outcome == "interrupted"
    assert record.comparisons[0].same > 100
    (kept,) = (project.run_directory / "tests").glob("*/against/result.json")
    assert read_record(kept, Result).backends[0].window.rounds == 3


ALONE = """
from distributed.utils_test import gen_cluster

@pytest.mark.schedprof(backend="counts")
@gen_cluster(client=True, timeout=300)
async def test_alone(c, s, a, b):
    await c.submit(inc, 1)
"""


@pytest.mark.slow
def test_what_has_no_other_side(project: Project, other: Path, cluster: LocalProcesses) -> None:
    """What is not profiled, a scheduler of somebody else, and one in the test's own process."""
    given = f"\n@pytest.fixture\ndef schedprof_cluster():\n    return {cluster.address!r}\n"
    project.write(given + TASKS, "test_given.py")
    project.write(FIXTURE.replace("@pytest.mark.schedprof\n", ""), "test_plain.py")
    project.write(ALONE, "test_alone.py")
    result = project.run(f"--schedprof-against={other}")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "*needs a second cluster like the test's*",
            "not compared: 1 test without the fixture schedprof_scheduler,*",
        ]
    )
