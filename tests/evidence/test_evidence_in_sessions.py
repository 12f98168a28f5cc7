"""Tests of evidence in sessions: several processes, turns, options, and a scheduler that dies."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
from bokeh_pages import legend_of, lines_of
from support import Project

from pytest_schedprof.evidence import KINDS, span
from pytest_schedprof.model.evidence import MemorySamples, Spans
from pytest_schedprof.model.metric import SAMPLED
from pytest_schedprof.model.result import Result

TASKS = """
@pytest.mark.parametrize("tasks", [20, 30])
def test_it(schedprof_scheduler, tasks):
    wait(schedprof_scheduler.client.map(inc, range(tasks), pure=False))
"""

HOLLOW = ("--schedprof-cluster=simulated", "--schedprof-workers=4")
NOT_OF_HOLLOW = {"transfers", "workers", "local"}


def had(result: Result) -> set[str]:
    return {kind.kind for kind in result.evidence if not kind.missing}


def tasks_of_spans(project: Project) -> list[int]:
    files = (project.run_directory / "tests").glob("*/span.json")
    spans = [msgspec.json.decode(file.read_bytes(), type=Spans) for file in files]
    return sorted(content.merged.tasks for content in spans)


@pytest.mark.slow
def test_in_several_processes(project: Project) -> None:
    evidence = "--schedprof-evidence=span,phases,transfers,workers"
    session = project.run_test(TASKS, *HOLLOW, "--schedprof=cputime", evidence, "-n2")
    session.assert_outcomes(passed=2)
    session.stdout.fnmatch_lines(["*evidence: span, phases*"])
    for result in project.results().values():
        assert had(result) == {"span", "phases"}
        kinds = {kind.kind: kind for kind in result.evidence}
        assert kinds["span"].notes == (span.HOLLOW,)
        assert kinds["transfers"].missing == "hollow workers keep no log of transfers"
        assert kinds["workers"].missing.startswith("workers have no profiles: they are hollow, or")
    assert tasks_of_spans(project) == [20, 30]


@pytest.mark.slow
def test_in_turns_it_is_of_the_scheduler_under_test(project: Project) -> None:
    turns = (f"--schedprof-against={sys.executable}", "--schedprof-budget=5")
    options = (*HOLLOW, "--schedprof=counts", "--schedprof-evidence=span,memory")
    result = project.run_test(TASKS, *options, *turns, "-k", "20")
    result.assert_outcomes(passed=1, deselected=1)
    (record,) = project.results().values()
    assert had(record) == {"span", "memory"}
    rounds = record.backends[0].window.rounds
    assert tasks_of_spans(project) == [20 * rounds]
    (other,) = (project.run_directory / "tests").glob("*/against/span.json")
    assert msgspec.json.decode(other.read_bytes(), type=Spans).merged.tasks == 20 * rounds
    labels = [f"{side}: {measure}" for side in ("now", "before") for measure in SAMPLED]
    picture = other.parents[1] / "memory.html"
    assert legend_of(picture) == labels
    assert {places[0] for _, places in lines_of(picture)} == {0}
    page = (other.parents[1] / "index.html").read_text()
    assert 'href="memory.html"' in page


BODY = """
import os
import psutil

EVIDENCE = pytest.mark.schedprof(evidence="all")

def test_without(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

@EVIDENCE
def test_kills(schedprof_scheduler):
    if psutil.pid_exists(schedprof_scheduler.pid):  # true for one of the body runs only
        os.kill(schedprof_scheduler.pid, 9)

@EVIDENCE
def test_after(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""


@pytest.mark.slow
def test_it_is_not_counted_and_a_scheduler_that_dies_takes_only_its_own(project: Project) -> None:
    """Evidence is gathered in body runs of its own; otherwise, calls per task would rise."""
    options = ("--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4")
    result = project.run_test(BODY, *options)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["schedprof: the scheduler's process * was killed by signal 9; *"])
    results = project.results()
    without, killed, after = (results[f"test_{name}"] for name in ("without", "kills", "after"))
    assert without.evidence == ()
    assert cost_of_a_transition(after) == cost_of_a_transition(without)
    assert had(killed) == set()
    assert all("\n" not in kind.missing for kind in killed.evidence)
    assert had(after) == {*KINDS} - NOT_OF_HOLLOW
    assert tasks_of_spans(project) == [20]


def cost_of_a_transition(result: Result) -> float:
    """Bytecodes per call of `_transition`, which calls plugins, so that each plugin adds some.

    The number of calls differs between runs.
    """
    (counts,) = result.backends
    assert counts.costs is not None
    totals = {cost.function: cost.total for cost in counts.costs.functions}
    total = totals["distributed.scheduler:SchedulerState._transition"]
    return total["bytecodes"] / total["calls"]


CLUSTER = """
SELDOM = {"memory": {"interval": "10min"}}
OFTEN = {"memory": {"measures": ["managed_total", "unmanaged_recent"], "interval": 0.001}}

@pytest.mark.schedprof(options=SELDOM)
def test_seldom(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)

def intervals(dask_scheduler):
    callbacks = dask_scheduler.periodic_callbacks.items()
    return {one.callback_time for name, one in callbacks if name.startswith("MemorySampler")}

def samples(dask_scheduler):
    every = dask_scheduler.extensions["memory_sampler"].samples.values()
    return min(map(len, every), default=4)  # evidence has a run of the body to itself

@pytest.mark.schedprof("memory(optimistic) <= 40GiB", options=OFTEN)
def test_often(schedprof_scheduler):
    client = schedprof_scheduler.client
    assert client.run_on_scheduler(intervals) <= {1}  # in milliseconds
    while client.run_on_scheduler(samples) < 4:
        pass
"""


def samples_by_measure(directory: Path, test: str) -> dict[str, list[int]]:
    """Return how many samples each measure has, for each run of the body."""
    (path,) = directory.glob(f"tests/*{test}*/memory.json")
    counts = defaultdict(list)
    for samples in msgspec.json.decode(path.read_bytes(), type=list[MemorySamples]):
        counts[samples.measure].append(len(samples.samples))
    return dict(counts)


@pytest.mark.slow
def test_measures_and_interval_are_options(project: Project) -> None:
    options = (*HOLLOW, "--schedprof=counts", "--schedprof-evidence=memory")
    project.run_test(CLUSTER, *options).assert_outcomes(passed=2)
    assert samples_by_measure(project.run_directory, "seldom") == {name: [1] for name in SAMPLED}
    often = samples_by_measure(project.run_directory, "often")
    assert set(often) == {"managed_total", "unmanaged_recent", "optimistic"}
    assert min(often.values())[0] > 3
    (limit,) = project.results()["test_often"].limits
    assert limit.verdict.value == "pass"
