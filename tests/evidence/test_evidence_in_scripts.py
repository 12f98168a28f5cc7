"""Tests of evidence around the body of a `with` statement, in scripts and notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from operator import neg
from pathlib import Path

import msgspec
import pytest
from bokeh_pages import texts_of
from distributed import Client, wait
from witness import opened

from pytest_schedprof import profile_scheduler
from pytest_schedprof.agent.instruments import SAMPLER
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.evidence.span import ELSEWHERE
from pytest_schedprof.model.evidence import Spans
from pytest_schedprof.model.result import Result


@pytest.fixture(scope="module")
def scheduler() -> Iterator[SchedulerUnderTest]:
    with opened("local") as scheduler:
        yield scheduler


def missing(result: Result) -> list[str]:
    return [kind.kind for kind in result.evidence if kind.missing]


def texts_of_report(directory: Path) -> str:
    return "\n".join(texts_of(directory / "report.html"))


@pytest.mark.slow
def test_of_a_body(scheduler: SchedulerUnderTest, tmp_path: Path) -> None:
    with profile_scheduler("counts", tmp_path, evidence="all") as profile:
        wait(scheduler.client.map(neg, range(20), pure=False))
    assert {*missing(profile.result)} - {"workers"} == {"local"}  # tasks are too short for samples
    assert {"construction", "sending"} <= set(profile.result.backends[0].window.segments[0].client)
    assert "include the cost of gathering evidence" in profile.result.backends[0].warnings[-1]
    spans = msgspec.json.decode((tmp_path / "span.json").read_bytes(), type=Spans)
    assert spans.merged.tasks == profile.result.backends[0].window.tasks == 20
    assert "\ndef test_of_a_body(" in texts_of_report(tmp_path)


def test_workers_sample_as_before_if_a_backend_does_not_start(
    scheduler: SchedulerUnderTest,
) -> None:
    def intervals() -> dict[str, float]:
        read = lambda dask_worker: dask_worker.periodic_callbacks[SAMPLER].callback_time  # noqa: E731
        found: dict[str, float] = scheduler.client.run(read)
        return found

    before, often = intervals(), {"workers": {"interval": "2ms"}}
    with profile_scheduler("cputime"):
        refused = profile_scheduler("cputime", evidence="workers", options=often)
        with pytest.raises(SchedprofError, match="stop the other profiler first"), refused:
            pytest.fail("the body ran")
    assert intervals() == before


def test_of_an_asynchronous_client(scheduler: SchedulerUnderTest, tmp_path: Path) -> None:
    async def body() -> Result:
        async with Client(scheduler.address, asynchronous=True) as client:
            async with profile_scheduler(
                "counts", tmp_path, client=client, evidence="all"
            ) as profile:  # this line is in the report
                await wait(client.map(neg, range(20), pure=False))
            return profile.result

    result = asyncio.run(body())
    assert {*missing(result)} - {"workers"} == {"span", "local"}
    assert result.evidence[0].missing == ELSEWHERE
    assert result.backends[0].window.segments[0].client == {}
    assert "\nasync def body()" in texts_of_report(tmp_path)
    assert "# this line is in the report" in texts_of_report(tmp_path)
