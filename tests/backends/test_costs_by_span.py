"""Tests of what belongs to which span of a test: by counts exactly, by samples as a share."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from support import Project

from pytest_schedprof.agent.spans import attribution_in
from pytest_schedprof.formats.counted import read_counts
from pytest_schedprof.model.result import BackendResult, SpanCost

WORK = """
from distributed import span

def work(client):
    with span("first"):
        wait(client.map(inc, range(20), pure=False))
        with span("inner", "most"):
            wait(client.map(neg, range(10), pure=False))
    wait(client.map(abs, range(5), pure=False))
    with span("second"):
        wait(client.submit(sum, client.map(pos, range(40), pure=False), pure=False))
"""

VIRTUAL = (
    """
from operator import neg, pos
VIRTUAL = {"cluster": "virtual", "workers": 4}
SPANS = pytest.mark.schedprof(backend="counts", options={"spans": True}, **VIRTUAL)
PLAIN = pytest.mark.schedprof(backend="counts", **VIRTUAL)
"""
    + WORK
)

TWICE = (
    VIRTUAL
    + """
@SPANS
def test_spans(schedprof_scheduler):
    work(schedprof_scheduler.client)

@PLAIN
def test_plain(schedprof_scheduler):
    work(schedprof_scheduler.client)
"""
)

FIRST, INNER, SECOND = ("first",), ("first", "inner", "most"), ("second",)
DEFAULT = ("default",)


def spans_of(backend: BackendResult) -> dict[tuple[str, ...], SpanCost]:
    return {span.name: span for span in backend.spans}


@pytest.fixture
def counted(project: Project, monkeypatch: pytest.MonkeyPatch) -> dict[str, BackendResult]:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.run_test(TWICE, "-p", "no:randomly").assert_outcomes(passed=2)
    return {
        result.test_id.partition("::")[2]: result.backends[0]
        for result in project.results().values()
    }


@pytest.mark.slow
def test_counts_by_span(counted: dict[str, BackendResult], project: Project) -> None:
    """They are exact: together what is counted in another run without spans."""
    spans = spans_of(counted["test_spans"])
    tasks = {name: span.tasks for name, span in spans.items() if span.tasks}
    assert tasks == {FIRST: 20, INNER: 10, DEFAULT: 5, SECOND: 41}
    assert counted["test_plain"].spans == ()
    sums: Counter[str] = Counter()
    for span in spans.values():
        sums.update(span.total)
    plain = counted["test_plain"].costs
    assert plain is not None
    assert sums == {name: plain.whole[name] for name in ("calls", "bytecodes")}
    assert spans[()].total["bytecodes"] < 0.5 * sums["bytecodes"]
    # The same work costs the same, however it is nested.
    assert spans[FIRST].total["calls"] == pytest.approx(2 * spans[INNER].total["calls"], rel=0.1)
    check_functions(project)


def check_functions(project: Project) -> None:
    """All transitions of a task are its span's, and each graph is taken in for its own span."""
    (path,) = project.run_directory.glob("tests/*test_spans*/*.counts.json")
    spans = {span.name: span.functions for span in read_counts(path.read_bytes()).spans}
    update = "distributed.scheduler:Scheduler.update_graph"
    materialise = "distributed.scheduler:_materialize_graph"
    transition = "distributed.scheduler:SchedulerState._transition"
    for name, tasks in {FIRST: 20, INNER: 10, DEFAULT: 5, SECOND: 41}.items():
        assert (
            spans[name][update]["calls"]
            == spans[name][materialise]["calls"]
            == 1 + (name == SECOND)
        )
        assert spans[name][transition]["calls"] >= 3 * tasks
    assert transition not in spans[()]
    assert update not in spans[()]


SAMPLED = (
    """
from operator import neg, pos
"""
    + WORK
    + """
HOLLOW = {"cluster": "simulated", "workers": 4, "cluster_options": {"duration": "0s"}}

@pytest.mark.schedprof(backend="cputime", evidence="span", rate=500, **HOLLOW)
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    with span("many"):
        wait(client.map(inc, range(1000), pure=False))
    with span("few"):
        wait(client.map(neg, range(12), pure=False))
"""
)


@pytest.mark.slow
def test_shares_by_span(project: Project) -> None:
    result = project.run_test(SAMPLED, "-v")
    result.assert_outcomes(passed=1)
    record = project.result()
    (backend,) = record.backends
    spans = spans_of(backend)
    test = record.test_id
    assert spans[test, "many"].tasks == 1000
    assert spans[test, "few"].tasks == 12
    shares = {name: span.share.value for name, span in spans.items() if span.share}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert shares[test, "many"] > 10 * shares[test, "few"]
    assert shares[test, "many"] > 0.1
    result.stdout.re_match_lines([r".*spans .*CPU/task  part of busy samples", r"  many +1000 .*"])
    (page,) = project.run_directory.glob("tests/*/index.html")
    assert "Cost per span" in page.read_text()
    check_file(project)


def check_file(project: Project) -> None:
    """It says of each sample whose it is."""
    (path,) = project.run_directory.glob("tests/*/*.cputime.speedscope.json")
    file = msgspec.json.decode(path.read_bytes())
    (profile,) = file["profiles"]
    assert len(file["schedprof_spans"]["samples"]) == len(profile["samples"])


def test_what_is_no_scheduler_knows_no_spans() -> None:
    assert attribution_in(object()) is None
