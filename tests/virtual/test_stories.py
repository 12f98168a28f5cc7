"""Tests of what is told when a cluster in virtual time cannot go on."""

from __future__ import annotations

import pytest
from support import Project

VIRTUAL = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=2")

BROKEN = """
def corrupt(dask_scheduler=None):
    for task in dask_scheduler.tasks.values():
        task.processing_on = None

@pytest.mark.schedprof(
    cluster_options={"duration": "1s", "config.distributed.scheduler.validate": "true"}
)
def test_it(schedprof_scheduler):
    future = schedprof_scheduler.client.submit(inc, 1, key="mine")
    time.sleep(0.5)
    schedprof_scheduler.client.run_on_scheduler(corrupt)
    wait(future)
"""

ASYNC = """
import asyncio

@pytest.mark.asyncio
@pytest.mark.schedprof(cluster_options={"horizon": "1h"})
async def test_stuck(schedprof_scheduler):
    async with schedprof_scheduler.async_client() as client:
        await client.submit(inc, 1, key="mine", workers=["nobody"])

@pytest.mark.asyncio
@pytest.mark.schedprof(cluster_options={"horizon": "10m"})
async def test_for_ever(schedprof_scheduler):
    async with schedprof_scheduler.async_client() as client:
        while True:
            await client.submit(inc, 1, pure=False)
            await asyncio.sleep(60)
"""

FOR_EVER = """
@pytest.mark.schedprof(cluster_options={"horizon": "10m", "duration": "1m"})
def test_it(schedprof_scheduler):
    while True:
        wait(schedprof_scheduler.client.submit(inc, 1, pure=False))
"""


@pytest.mark.slow
def test_a_broken_state_is_told_and_where_it_broke(project: Project) -> None:
    result = project.run_test(BROKEN, *VIRTUAL)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the cluster's own state is broken, after * of virtual time: *"])


@pytest.mark.slow
def test_a_test_that_never_ends_is_stopped_at_the_horizon(project: Project) -> None:
    result = project.run_test(FOR_EVER, *VIRTUAL)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has not ended after 600 s of virtual time, its horizon*"])


@pytest.mark.slow
def test_coroutines_that_would_wait_for_ever_are_stopped_too(project: Project) -> None:
    result = project.run_test(ASYNC, *VIRTUAL)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*a deadlock*'mine' is no-worker*"])
    result.stdout.fnmatch_lines(["*has not ended after 600 s of virtual time, its horizon*"])


@pytest.mark.slow
def test_the_story_of_a_stuck_task_is_told(project: Project) -> None:
    body = """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.submit(inc, 1, key="mine", workers=["nobody"]))
"""
    result = project.run_test(body, *VIRTUAL)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*story of 'mine', in virtual seconds:", "*released -> waiting*"])
