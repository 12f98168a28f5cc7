"""Tests of the phases of a computation: what client, scheduler and workers spend."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import dask.array
import msgspec
import pytest
from distributed import wait
from msgspec.structs import replace
from support import Project, wait_for
from witness import opened

from pytest_schedprof.evidence.phases import (
    NO_WORKERS,
    UNSAMPLED,
    Stopwatch,
    draw_bar,
    watch_client,
)
from pytest_schedprof.evidence.workers import watch_workers
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.phases import ClientCosts, phases_of
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.model.evidence import Phases
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.metric import CLIENT, RECEIVING, WORKERS
from pytest_schedprof.model.result import BackendResult, Segment, Window

BODY = """
import time

def burn(number):
    busy(0.02)
    return bytes(100_000)

def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

@pytest.mark.schedprof(
    "cpu(@graph-intake) <= 60ms", "cpu(@client-construction) <= 50us", "cpu(@client-sending) <= 1s",
    backend="cputime", rate=200, evidence="phases",
)
def test_it(schedprof_scheduler):
    schedprof_scheduler.client.submit(inc, 0).result()
    with schedprof_scheduler.measure():
        busy(0.25)
        wait(schedprof_scheduler.client.map(inc, range(980), pure=False))
        schedprof_scheduler.client.gather(schedprof_scheduler.client.map(burn, range(20)))
"""


@pytest.mark.slow
def test_phases_are_costs_of_the_window_that_limits_hold(project: Project) -> None:
    result = project.run_test(BODY)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*limit broken: cpu(@client-construction) <= 50us: @client-construction takes *"]
    )
    record = project.result()
    (directory,) = (project.run_directory / "tests").iterdir()
    content = msgspec.json.decode((directory / "phases.json").read_bytes(), type=Phases)
    assert content.tasks == 1000
    assert content.sampled_by == "cputime"
    of_scheduler = [phase for phase in content.phases if phase.where == "scheduler"]
    names = [phase.name for phase in of_scheduler]
    assert names == ["intake", "transitions", "messages", "rest"]
    (backend,) = record.backends
    cpu = backend.window.cpu_seconds / 1000
    costs = [phase.cpu_seconds_per_task for phase in of_scheduler]
    assert sum(costs) == pytest.approx(cpu, rel=0.05)
    assert [limit.verdict.value for limit in backend.limits] == ["pass", "fail", "pass"]
    held = {limit.limit: limit.findings[0].estimate.value for limit in backend.limits}
    assert held["cpu(@graph-intake) <= 60ms"] == pytest.approx(costs[0], rel=0.05)
    client = {phase.name: phase.cpu_seconds_per_task for phase in content.phases[:4]}
    execution, overhead, receiving = content.phases[8:]
    places = [(phase.where, phase.name) for phase in content.phases[8:]]
    assert places == [("workers", "execution"), ("workers", "overhead"), ("client", "receiving")]
    assert execution.cpu_seconds_per_task > 20 * 0.02 / 1000
    assert overhead.cpu_seconds_per_task > 0
    assert receiving.cpu_seconds_per_task > 0
    assert held["cpu(@client-construction) <= 50us"] == client["construction"] > 0.25 / 1000
    assert held["cpu(@client-sending) <= 1s"] == client["sending"] > 0
    picture = ElementTree.fromstring((directory / "phases.svg").read_bytes())
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}title")) == 11


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Graph:
    """A graph whose construction and serialisation take known times."""

    def __init__(self) -> None:
        burn(0.3)

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        burn(0.2)
        return object, ()


@pytest.mark.slow
def test_phases_are_the_time_of_threads_that_are_there_to_the_end() -> None:
    with opened("local") as scheduler:
        end = watch_client(scheduler.client)
        made = Graph()
        arrays = [dask.array.ones(size) + 1 for size in range(1, 41)]
        wait([scheduler.client.submit(id, made), *scheduler.client.persist(arrays)])
        seconds = end()
        assert set(seconds) == {*CLIENT, RECEIVING}
        assert seconds["construction"] > 0.3
        assert seconds["serialisation"] > 0.2
        assert seconds["optimisation"] > 0.001
        assert seconds["sending"] > 0.001

        ends: list[Callable[[], dict[str, float]]] = []
        first = threading.Thread(target=lambda: ends.append(watch_client(scheduler.client)))
        first.start()
        wait_for(lambda: not Path(f"/proc/self/task/{first.native_id}").exists(), "its end")
        seconds = ends[0]()
        assert "construction" not in seconds  # its thread has ended, so its CPU clock is gone
        assert seconds["sending"] >= 0

        stays = watch_workers(scheduler.control)
        assert set(stays()) == set(WORKERS)
        leaves = watch_workers(scheduler.control)
        scheduler.client.retire_workers(list(scheduler.workers[:1]))
        assert leaves() == {}


UNDECIDED = """
@pytest.mark.schedprof(backend="counts", evidence="phases")
def test_counted(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

@pytest.mark.schedprof("phase(intake) <= 1us", "phase(construction) <= 10s", backend="cputime")
def test_few(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

@pytest.mark.asyncio
@pytest.mark.schedprof("cpu(@client-construction) <= 1us", backend="cputime")
async def test_thread(schedprof_scheduler):
    async with schedprof_scheduler.measure():  # begins in a thread that constructs nothing
        wait(schedprof_scheduler.client.map(inc, range(500), pure=False))
"""


def test_what_was_not_measured_decides_nothing(project: Project) -> None:
    """No samples, too few of them, and a window that begins in another thread."""
    options = ("--schedprof-cluster=simulated", "--schedprof-workers=2")
    project.run_test(UNDECIDED, *options).assert_outcomes(passed=3)
    records = project.results()
    (evidence,) = records["test_counted"].evidence
    assert evidence.notes == (UNSAMPLED, NO_WORKERS)
    assert evidence.artifacts == ("phases.json", "phases.svg")
    intake, construction = records["test_few"].limits
    assert (intake.verdict, construction.verdict) == (Verdict.INCONCLUSIVE, Verdict.PASS)
    assert "busy samples, at least 50 are needed" in intake.note
    (limit,) = records["test_thread"].limits
    assert limit.verdict is Verdict.INCONCLUSIVE
    assert "the client's construction was not timed: " in limit.note


def test_limit_on_a_phase_that_was_not_timed_is_inconclusive() -> None:
    timed = Segment(1.0, 0.5, 100, 600, client={"sending": 0.02})
    limit = parse_limit("cpu(@client-sending) <= 300us")
    assert judge(limit, ClientCosts([[timed], [timed]]), []).verdict is Verdict.PASS
    untimed = judge(limit, ClientCosts([[timed], [replace(timed, client={})]]), [])
    assert untimed.verdict is Verdict.INCONCLUSIVE
    assert untimed.note.startswith("the client's sending was not timed: it needs schedprof_sched")


def test_a_phase_that_a_segment_lacks_is_none_of_the_window() -> None:
    """A worker left in the second round: nobody knows what the tasks of that round took."""
    timed = Segment(1.0, 0.5, 100, 600, client={"sending": 0.02}, workers={"execution": 0.3})
    left = replace(timed, workers={})

    def costs(*segments: Segment) -> dict[str, float]:
        window = Window(len(segments), segments)
        phases = phases_of([BackendResult("counts", "", {}, window, None, None, (), ())])
        assert phases is not None
        return {phase.name: phase.cpu_seconds_per_task for phase in phases.phases}

    assert costs(timed, timed) == pytest.approx({"sending": 200e-6, "execution": 3e-3})
    assert costs(timed, left) == pytest.approx({"sending": 200e-6})


def test_how_a_phase_grows() -> None:
    sizes = (100, 1000, 10_000)
    rounds = [[Segment(1, 1, n, n, scale=n, client={"construction": n**2 * 1e-6})] for n in sizes]
    limit = parse_limit("growth(cpu, @client-construction) <= 1.5")
    result = judge(limit, ClientCosts(rounds), [])
    assert result.verdict is Verdict.FAIL
    assert result.findings[0].estimate.value == pytest.approx(2)


class Client:
    """A client with a static method, as dask's client has in older releases."""

    @staticmethod
    def outer(seconds: float) -> None:
        inner(seconds)


def inner(seconds: float) -> None:
    burn(seconds)


def test_stopwatch_counts_what_is_within_once_and_leaves_all_as_it_was() -> None:
    before = vars(Client)["outer"], inner
    watch = Stopwatch(
        {
            "outer": [(__name__, "Client.outer"), ("no_module", "at_all")],
            "inner": [(__name__, "inner"), (__name__, "Client.no_method")],
        }
    )
    with watch.on():
        Client.outer(0.1)
        inner(0.05)
        other = threading.Thread(target=inner, args=[0.05])
        other.start()
        other.join()
    assert (vars(Client)["outer"], inner) == before
    assert watch.seconds["outer"] == pytest.approx(0.1, rel=0.2)
    assert watch.seconds["inner"] == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("parts", [[], [("nothing", 0.0)], [("<b>", 1e-6), ("&", 3e-6)]])
def test_bar_of_any_parts(parts: list[tuple[str, float]]) -> None:
    picture = ElementTree.fromstring(draw_bar(parts))
    titles = [title.text or "" for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert [title.split("  ")[1].split(":")[0] for title in titles] == [label for label, _ in parts]
