"""Tests of counts in the test's own process, whose hash seed is another one in each session."""

from __future__ import annotations

import pytest
from injection import __file__ as injection
from support import Project

from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.baselines import load

pytestmark = pytest.mark.usefixtures("apart")  # each session needs an interpreter of its own

BODY = """
from distributed.utils_test import gen_cluster

@pytest.mark.schedprof(backend="counts")
@gen_cluster(client=True, timeout=60)
async def test_it(c, s, a, b):
    await wait(c.map(inc, range(20)))
"""

PLANTED = f"""
import pathlib, sys
sys.path.append(str(pathlib.Path({injection!r}).parent))
from injection import plant
import distributed.scheduler
plant("distributed.scheduler", "SchedulerState._transition", "sorted(x for x in ALL_TASK_STATES)")
"""

MOVED_BY_THE_SEED = "distributed.scheduler:SchedulerState._transition.<locals>.<genexpr>"


def session(project: Project, seed: str, option: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    project.run_test(BODY, option, timeout_s=300)
    (result,) = load(".schedprof", str(project.path)).results
    assert result.environment
    assert result.environment.hash_seed == seed
    return result


def cost(result: Result) -> float:
    """Bytecodes of the function that iterates over the states of a task group."""
    (backend,) = result.backends
    assert backend.costs
    total = {cost.function: cost.total for cost in backend.costs.functions}
    return total[MOVED_BY_THE_SEED]["bytecodes"] / backend.window.tasks


@pytest.mark.slow
def test_another_hash_seed_is_no_regression_and_hides_none(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds 1 and 2 order the task states differently: +36 to +89 % of that function."""
    monkeypatch.chdir(project.path)
    first = session(project, "1", "--schedprof-save=one", monkeypatch)
    second = session(project, "2", "--schedprof-compare=one", monkeypatch)
    assert cost(first) == pytest.approx(cost(second), rel=0.001)
    (same,) = second.comparisons
    assert not same.of(Outcome.REGRESSED)
    (project.path / "conftest.py").write_text(PLANTED)
    (changed,) = session(project, "random", "--schedprof-compare=one", monkeypatch).comparisons
    named = {change.subject: change.note for change in changed.of(Outcome.REGRESSED)}
    assert "PYTHONHASHSEED=0" in named[MOVED_BY_THE_SEED]
