"""Tests of coroutine tests, under each plugin that runs them."""

from __future__ import annotations

import pytest
from support import BURNED, Project

BODY = f"""
@pytest.mark.{{mark}}
@pytest.mark.schedprof("share({BURNED}) <= 10%", rounds={{rounds}})
async def test_it(schedprof_scheduler{{more}}):
    async with schedprof_scheduler.async_client() as client:
        assert await client.submit(inc, 1) == 2
        async with schedprof_scheduler.measure():
            burn(schedprof_scheduler, 0.4)
"""
MORE = {"asyncio": "", "anyio": ", anyio_backend"}
ANYIO = """
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["asyncio", "anyio"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_coroutine_is_run_profiled_and_judged(project: Project, mark: str, rounds: int) -> None:
    body = BODY.format(mark=mark, rounds=rounds, more=MORE[mark])
    result = project.run_test((ANYIO if mark == "anyio" else "") + body)
    result.assert_outcomes(failed=1)
    record = project.result()
    assert len(record.backends[0].window.segments) == rounds
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
