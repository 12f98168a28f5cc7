"""Tests of users' plugins of the scheduler as evidence, on a cluster and in the test's process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from distributed import SchedulerPlugin
from support import Project

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence.plugins import kind_of

PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"

CONFTEST = next(
    block
    for block in re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    if "def pytest_schedprof_plugins" in block
)

BODY = """
from distributed import Client

def block(x, delay=0.05):
    time.sleep(delay)

@pytest.mark.schedprof(
    "figure(queue:longest) <= 4", "figure(queue:l*) <= 1000",
    backend="cputime", rounds=2, workers=1,
)
def test_cluster(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(block, range(10), pure=False))

@pytest.mark.schedprof("figure(queue:shortest) <= 4", backend="counts")
def test_typing_mistake():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as c:
        wait(c.map(block, range(10), pure=False))

@pytest.mark.schedprof("figure(cue:longest) <= 4", backend="counts")
def test_unknown_kind(schedprof_scheduler):
    pass
"""


@pytest.mark.slow
def test_the_plugin_of_the_page(project: Project) -> None:
    (project.path / "conftest.py").write_text(CONFTEST)
    result = project.run_test(BODY)
    counts = result.parseoutcomes()
    assert counts.get("failed", 0) + counts.get("errors", 0) == 3
    result.stdout.fnmatch_lines_random(
        [
            "*limit broken: figure(queue:longest) <= 4: queue:longest is *in 2 runs*queue.json",
            "*'queue:shortest' names no figure of the test; there were: queue:longest",
            "*evidence must be any of span*queue, or 'all', got 'cue'",
        ]
    )
    record = project.results()["test_cluster"]
    assert [limit.verdict.value for limit in record.limits] == ["fail", "pass"]
    (path,) = project.run_directory.glob("tests/*cluster*/queue.json")
    answers = json.loads(path.read_text())
    assert [answer["take"] for answer in answers] == [1, 2]
    assert all(4 < answer["longest"] <= 10 for answer in answers)
    assert record.evidence[0].description == "How many tasks waited for a worker."


def test_a_plugin_is_a_class_with_its_method_and_a_usable_name() -> None:
    for thing in (3, Exception):
        with pytest.raises(SettingsError, match="must be a class that derives"):
            kind_of(thing)

    class Silent(SchedulerPlugin):
        pass

    class Named(SchedulerPlugin):
        name = "two words"

        def evidence(self) -> dict[str, int]:
            return {}

    with pytest.raises(SettingsError, match="lacks the method evidence"):
        kind_of(Silent)
    with pytest.raises(SettingsError, match="'two words' cannot name a kind of evidence"):
        kind_of(Named)
