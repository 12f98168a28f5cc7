"""Tests of the metric `spilled`: what workers write to disk, because their memory is limited."""

from __future__ import annotations

import pytest
from support import Project

GIVEN = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=1")

KEPT = """
@pytest.mark.schedprof({limits}
    cluster_options={{"nbytes": "100MB", "memory_limit": "{memory}", {more}}})
def test_it(schedprof_scheduler):
    kept = schedprof_scheduler.client.map(inc, range(10), pure=False)
    wait(kept)
"""


def body(limits: str = "", memory: str = "500MB", more: str = "") -> str:
    return KEPT.format(limits=limits, memory=memory, more=more)


def spilled(project: Project) -> float:
    """Bytes spilled in a round; those of several rounds are equal."""
    (decided,) = (each for each in project.result().backends if each.backend == "decisions")
    assert decided.costs
    return decided.costs.whole["spilled"]


def test_what_does_not_fit_into_the_target_is_spilled_to_the_byte(project: Project) -> None:
    # Of ten results of 100 MB, three are within 60 % of 500 MB.
    result = project.run_test(body('"spilled <= 700MB", "spilled <= 699999999B",'), *GIVEN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*spilled <= 699999999B*"])
    result.stdout.no_fnmatch_line("*spilled <= 700MB*fail*")
    assert spilled(project) == 700e6


@pytest.mark.parametrize(
    ("memory", "more"), [("4GB", ""), ("500MB", '"config.distributed.worker.memory.target": "0"')]
)
def test_nothing_is_spilled_for_nothing(project: Project, memory: str, more: str) -> None:
    project.run_test(body('"spilled <= 0B",', memory, more), *GIVEN).assert_outcomes(passed=1)


def test_what_is_read_again_is_spilled_again(project: Project) -> None:
    used = """    client = schedprof_scheduler.client
    wait([client.submit(sum, [each], pure=False) for each in kept])
"""
    options = '"duration": "10ms; sum: 10ms"'
    project.run_test(body("", "500MB", options) + used, *GIVEN).assert_outcomes(passed=1)
    assert spilled(project) > 1_400e6


@pytest.mark.slow
def test_more_than_before_is_a_regression(project: Project) -> None:
    project.run_test(body(memory="1GB"), *GIVEN, "--schedprof-save=main").assert_outcomes(passed=1)
    limited = body('"spilled <= baseline * 1.02",')
    result = project.run_test(limited, *GIVEN, "--schedprof-compare=main")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*regressed*spilled*400 MB*700 MB*"])
