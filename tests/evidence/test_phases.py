"""The way of a computation: what the client spends on it, and what the scheduler does."""

from __future__ import annotations

import threading
import time
from xml.etree import ElementTree

import dask.array
import msgspec
import pytest
from distributed import wait
from support import Project
from witness import opened

from pytest_schedprof.evidence.phases import UNSAMPLED, PhasesKind
from pytest_schedprof.evidence.stopwatch import Stopwatch
from pytest_schedprof.formats.bar import draw_bar
from pytest_schedprof.model.evidence import Phases

BODY = """
@pytest.mark.schedprof("cpu(@graph-intake) <= 60ms", backend="cputime", evidence="phases")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(2000), pure=False))
"""


def test_phases_of_the_scheduler_are_its_cpu_per_task(project: Project) -> None:
    project.run_test(BODY).assert_outcomes(passed=1)
    record = project.result()
    (directory,) = (project.run_directory / "tests").iterdir()
    told = msgspec.json.decode((directory / "phases.json").read_bytes(), type=Phases)
    assert told.tasks == 2000
    assert told.sampled_by == "cputime"
    names = [each.name for each in told.phases if each.where == "scheduler"]
    assert names == ["intake", "transitions", "messages", "rest"]
    (backend,) = record.backends
    cpu = backend.window.cpu_seconds / 2000
    costs = [each.cpu_seconds_per_task for each in told.phases if each.where == "scheduler"]
    assert sum(costs) == pytest.approx(cpu, rel=0.05)
    (limit,) = backend.limits
    assert limit.findings[0].estimate.value == pytest.approx(costs[0], rel=0.05)
    picture = ElementTree.fromstring((directory / "phases.svg").read_bytes())
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}title")) == 8


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Graph:
    """Its construction, and its way into bytes, cost a known time."""

    def __init__(self) -> None:
        burn(0.3)

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        burn(0.2)
        return object, ()


def test_phases_of_the_client_are_the_time_of_its_threads() -> None:
    with opened("local") as scheduler:
        kind = PhasesKind(scheduler, "test_it")
        with kind.take(1):
            made = Graph()
            array = dask.array.ones((60, 60), chunks=1) + 1
            wait([scheduler.client.submit(id, made), scheduler.client.persist(array)])
        brought = kind.bring(())
    told = msgspec.json.decode(brought.files["phases.json"], type=Phases)
    seconds = {each.name: each.cpu_seconds_per_task * told.tasks for each in told.phases}
    assert list(seconds) == ["construction", "optimisation", "serialisation", "sending"]
    assert seconds["construction"] > 0.3
    assert seconds["serialisation"] > 0.2
    assert seconds["optimisation"] > 0.001
    assert seconds["sending"] > 0.001
    assert brought.notes == (UNSAMPLED,)


class Client:
    """As dask's has it in older releases: a method that needs none."""

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
    titles = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert [title.split("  ")[1].split(":")[0] for title in titles] == [label for label, _ in parts]
