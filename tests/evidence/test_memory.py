"""Tests of the kind `memory`: its options, on clusters and in the test's own process."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
from support import Project

from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.metric import SAMPLED

CLUSTER = """
SELDOM = {"memory": {"interval": "10min"}}
OFTEN = {"memory": {"measures": ["managed_total", "unmanaged_recent"], "interval": 0.001}}

@pytest.mark.schedprof(options=SELDOM)
def test_seldom(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)

@pytest.mark.schedprof("memory(optimistic) <= 40GiB", options=OFTEN)
def test_often(schedprof_scheduler):
    for _ in range(10):
        burn(schedprof_scheduler, 0.01)
"""

OPTIONS = ("--schedprof=counts", "--schedprof-cluster=simulated", "--schedprof-workers=2")


def samples_by_measure(directory: Path, test: str) -> dict[str, list[int]]:
    """Return how many samples each measure has, for each run of the body."""
    (path,) = directory.glob(f"tests/*{test}*/memory.json")
    counts = defaultdict(list)
    for each in msgspec.json.decode(path.read_bytes(), type=list[MemorySamples]):
        counts[each.measure].append(len(each.samples))
    return dict(counts)


@pytest.mark.slow
def test_measures_and_interval_are_options(project: Project) -> None:
    project.run_test(CLUSTER, *OPTIONS, "--schedprof-evidence=memory").assert_outcomes(passed=2)
    assert samples_by_measure(project.run_directory, "seldom") == {name: [1] for name in SAMPLED}
    often = samples_by_measure(project.run_directory, "often")
    assert set(often) == {"managed_total", "unmanaged_recent", "optimistic"}
    assert min(often.values())[0] > 3
    (limit,) = project.results()["test_often"].limits
    assert limit.verdict.value == "pass"


HERE = """
from distributed.utils_test import gen_cluster

@pytest.mark.schedprof("memory(unmanaged) <= 40GiB", backend="counts")
@gen_cluster(client=True)
async def test_it(c, s, a, b):
    for _ in range(10):
        await c.submit(inc, 1, pure=False)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_they_are_in_the_tests_own_process_too(project: Project) -> None:
    options = ("memory.measures=process,optimistic", "memory.interval=10min")
    given = [f"--schedprof-option={each}" for each in options]
    project.run_test(HERE, *given).assert_outcomes(passed=1)
    found = samples_by_measure(project.run_directory, "test_it")
    assert set(found) == {"process", "optimistic", "unmanaged"}
    # One as the scheduler starts, and one as each worker leaves.
    assert found["process"] == [3]
    assert [each.verdict.value for each in project.result().limits] == ["pass"]


PLAIN = """
def test_it(schedprof_scheduler):
    pass
"""


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("memory.measures=process,rss", "measures must be any of process, managed, .* got 'rss'"),
        ("memory.measures=", "memory.measures must be names, separated by commas, got ''"),
        ("memory.interval=0", "memory.interval must be above 0, got 0"),
        ("memory.interval=soon", "memory.interval must be a time such as 500ms .* got 'soon'"),
        ("memory.rate=5", "evidence 'memory' has no option 'rate'; known: interval, measures"),
    ],
)
def test_options_that_cannot_be(project: Project, option: str, message: str) -> None:
    asked = ("--schedprof-evidence=memory", f"--schedprof-option={option}")
    result = project.run_test(PLAIN, *OPTIONS, *asked)
    assert result.ret != 0
    assert re.search(message, result.stdout.str() + result.stderr.str())
