"""Tests of objects and stalls in virtual time: whole sessions, compared from one round on."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

import injection
import pytest
from support import Project

from pytest_schedprof.judge.compare import compare
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.baselines import load

pytestmark = pytest.mark.usefixtures("apart")  # each session needs an interpreter of its own

OPTIONS = (
    "--schedprof=objects,stalls", "--schedprof-cluster=virtual", "--schedprof-workers=8",
    "--schedprof-rounds=1",
)  # fmt: skip

BODY = """
from injection import plant

@pytest.fixture
def changed(schedprof_scheduler):
    for module, qualname, statement in [{change}]:
        schedprof_scheduler.client.run_on_scheduler(plant, module, qualname, statement)

@pytest.mark.schedprof("stall(p50) <= 100ms", "stall(distributed.scheduler:*) <= 60s")
def test_it(schedprof_scheduler, changed):
    wait(schedprof_scheduler.client.map(inc, range(200), pure=False))
"""

MORE = (
    "distributed.scheduler",
    "SchedulerState._add_to_processing",
    "ts.erred_on = set()",
)


def runs(project: Project) -> list[tuple[Result, ...]]:
    """Return the results of each session, the first one first."""
    directories = sorted((project.path / ".schedprof").glob("2*"))
    return [load(str(each), str(project.path)).results for each in directories]


def of_objects(comparisons: Iterable[Comparison]) -> Comparison:
    (comparison,) = [each for each in comparisons if each.backend == "objects"]
    return comparison


def compared(project: Project) -> Comparison:
    """Return the comparison of the newest session."""
    return of_objects(runs(project)[-1][0].comparisons)


def callbacks(project: Project) -> list[str]:
    """Return what occupied the loop, hollow workers not among it."""
    (result,) = runs(project)[-1]
    (costs,) = [each.costs for each in result.backends if each.backend == "stalls"]
    return [each.function for each in costs.functions] if costs else []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_one_round_names_the_type_of_which_each_task_has_one_more(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.chdir(project.path)
    shutil.copy(injection.__file__, project.path)

    def session(change: str, option: str) -> str:
        run = project.run_test(BODY.format(change=change), *OPTIONS, option, timeout_s=200)
        return str(run.stdout)

    session("", "--schedprof-save=main")
    session("", "--schedprof-compare=main")
    assert callbacks(project)
    assert [name for name in callbacks(project) if name.startswith("pytest_schedprof")] == []
    assert compared(project).changes == ()
    assert compared(project).same > 5
    told = session(repr(MORE), "--schedprof-compare=main")
    changes = {each.subject: each for each in compared(project).of(Outcome.REGRESSED)}
    changed = changes["builtins:set"]
    assert changed.metric == "objects"
    assert changed.difference == pytest.approx(1.0)
    assert "objects of builtins:set" in told
    _, fewer_objects, more_objects = runs(project)
    back = of_objects(compare(more_objects, fewer_objects).comparisons)
    (fewer,) = [each for each in back.of(Outcome.IMPROVED) if each.subject == "builtins:set"]
    assert fewer.difference == pytest.approx(-1.0)
