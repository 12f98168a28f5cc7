"""Tests of the kind `memory` and its options."""

from __future__ import annotations

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
    for samples in msgspec.json.decode(path.read_bytes(), type=list[MemorySamples]):
        counts[samples.measure].append(len(samples.samples))
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
