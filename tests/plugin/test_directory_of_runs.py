"""Tests of sessions and commands that compare with a directory of runs."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import injection
import pytest
from support import Project

from pytest_schedprof.cli.main import main
from pytest_schedprof.judge.series import LEAST_RUNS
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.records import read_record

COUNTS = ("--schedprof=counts", "--schedprof-cluster=simulated", "--schedprof-workers=4")

TEST = """
from injection import plant

@pytest.mark.schedprof(rounds=3)
def test_tasks(schedprof_scheduler):
    for statement in [{statement}]:
        schedprof_scheduler.client.run_on_scheduler(
            plant, module="distributed.scheduler", qualname="SchedulerState._transition",
            statement=statement,
        )
    wait(schedprof_scheduler.client.map(inc, range(100), pure=False))
"""

TOLD = f"thresholds from {LEAST_RUNS} earlier runs"


def newest(project: Project) -> Path:
    return max((project.path / ".schedprof").glob("2*"))


def again(run: Path, days: int) -> None:
    """Copy a run as one of some days before."""
    earlier = datetime.strptime(run.name[:15], "%Y%m%dT%H%M%S") - timedelta(days=days)
    place = run.parent / f"{earlier:%Y%m%dT%H%M%S}{run.name[15:]}"
    shutil.copytree(run, place)
    for file in [place / "run.json", *place.glob("tests/*/result.json")]:
        content = json.loads(file.read_text(encoding="utf-8"))
        began = datetime.fromisoformat(content["started_at"]) - timedelta(days=days)
        content["started_at"] = began.isoformat()
        file.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.slow
def test_a_directory_of_runs_gives_the_thresholds_and_says_so(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(injection.__file__, project.path)
    project.run_test(TEST.format(statement=""), *COUNTS).assert_outcomes(passed=1)
    first = newest(project)

    for days in range(1, LEAST_RUNS):
        again(first, days)
    slower = TEST.format(statement="'_ = None'")
    failed = project.run_test(slower, *COUNTS, "--schedprof-compare=.schedprof")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines([f"  {TOLD}", "*regressed  bytecodes*SchedulerState._transition"])
    run = newest(project)
    assert f"- {TOLD}\n" in (run / "summary.md").read_text(encoding="utf-8")
    (page,) = run.glob("tests/*/index.html")
    assert TOLD in page.read_text(encoding="utf-8")
    (record,) = run.glob("tests/*/result.json")
    (comparison,) = read_record(record, Result).comparisons

    capsys.readouterr()
    # The run is among those of the directory by now, which then stands for the runs before it.
    for place in (run.parent, f"file://{run.parent}"):
        assert main(["compare", str(place), str(run), "--json"]) == 1
        shown = json.loads(capsys.readouterr().out)["comparisons"][0]
        assert shown["thresholds"]["runs"] == LEAST_RUNS
        assert len(shown["changes"]) == len(comparison.changes)

    oldest, second, *_ = sorted(run.parent.glob("2*"))
    assert main(["compare", str(run.parent), str(second)]) == 0
    short = f"constant thresholds: 1 earlier run, {LEAST_RUNS} tell how much figures vary"
    assert short in capsys.readouterr().out
    assert main(["compare", str(run.parent), str(oldest)]) == 2
    assert f"there is no run before '{oldest}'" in capsys.readouterr().err
