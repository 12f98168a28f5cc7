"""Tests of what is said when a cluster in virtual time cannot go on."""

from __future__ import annotations

import pytest
from support import Project

BODY = """
import asyncio

def corrupt(dask_scheduler=None):
    for task in dask_scheduler.tasks.values():
        task.processing_on = None

@pytest.mark.schedprof(
    cluster_options={"duration": "1s", "config.distributed.scheduler.validate": "true"}
)
def test_broken(schedprof_scheduler):
    future = schedprof_scheduler.client.submit(inc, 1, key="mine")
    time.sleep(0.5)
    schedprof_scheduler.client.run_on_scheduler(corrupt)
    wait(future)

@pytest.mark.schedprof(cluster_options={"horizon": "1m", "duration": "10s"})
def test_endless(schedprof_scheduler):
    while True:
        wait(schedprof_scheduler.client.submit(inc, 1, pure=False))

def test_stuck(schedprof_scheduler):
    wait(schedprof_scheduler.client.submit(inc, 1, key="mine", workers=["nobody"]))

@pytest.mark.asyncio
async def test_stuck_coroutine(schedprof_scheduler):
    async with schedprof_scheduler.async_client() as client:
        await client.submit(inc, 1, key="mine", workers=["nobody"])

@pytest.mark.asyncio
@pytest.mark.schedprof(cluster_options={"horizon": "2m"})
async def test_endless_coroutine(schedprof_scheduler):
    async with schedprof_scheduler.async_client() as client:
        while True:
            await client.submit(inc, 1, pure=False)
            await asyncio.sleep(30)
"""

MESSAGES = [
    "*the cluster's own state is broken, after * of virtual time: *",
    "*has not ended after 60 s of virtual time, its horizon*",
    "*story of 'mine', in virtual seconds:",
    "*released -> waiting*",
    "*a deadlock*'mine' is no-worker*",
    "*has not ended after 120 s of virtual time, its horizon*",
]


@pytest.mark.slow
def test_why_a_cluster_cannot_go_on(project: Project) -> None:
    """The state broke, a test has reached its horizon, or nothing can happen any more."""
    options = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=2")
    result = project.run_test(BODY, *options)
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(MESSAGES)
