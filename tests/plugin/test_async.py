"""Tests of coroutine tests, under each plugin that runs them."""

from __future__ import annotations

import pytest
from support import BURNED, Project

BODY = f"""
@pytest.fixture
def anyio_backend():
    return "asyncio"

async def run(scheduler):
    async with scheduler.async_client() as client:
        assert await client.submit(inc, 1) == 2
        async with scheduler.measure():
            burn(scheduler, 0.4)  # a limit needs 50 samples

def judged(rounds):
    limit = "share({BURNED}) <= 10%"
    return pytest.mark.schedprof(limit, rounds=rounds, backend="cputime", rate=200)

ROUNDS = [pytest.param(marks=judged(rounds), id=str(rounds)) for rounds in (1, 3)]

@pytest.mark.asyncio
@pytest.mark.parametrize((), ROUNDS)
async def test_asyncio(schedprof_scheduler):
    await run(schedprof_scheduler)

@pytest.mark.anyio
@pytest.mark.parametrize((), ROUNDS)
async def test_anyio(schedprof_scheduler, anyio_backend):
    await run(schedprof_scheduler)
"""


@pytest.mark.slow
def test_coroutine_is_run_profiled_and_judged(project: Project) -> None:
    project.run_test(BODY).assert_outcomes(failed=4)
    results = project.results()
    assert len(results) == 4
    for name, record in results.items():
        assert len(record.backends[0].window.segments) == (3 if "3" in name else 1)
        (limit,) = record.limits
        assert limit.verdict.value == "fail"
        assert limit.findings[0].estimate.value > 0.8


def test_both_plugins_left_out_do_no_harm(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
""",
        "-p",
        "no:asyncio",
        "-p",
        "no:anyio",
        "-o",
        "asyncio_default_fixture_loop_scope=",
        "-W",
        "ignore::pytest.PytestConfigWarning",
    )
    result.assert_outcomes(passed=1)
