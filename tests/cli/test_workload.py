"""Tests of `schedprof workload`, which shows what is in a recorded workload."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_schedprof.cli.main import main
from pytest_schedprof.formats.workload import write_workload
from pytest_schedprof.model.workload import Graph, Group, Result, Task, WorkerEvent, Workload


def workload(begun: str = "2026-11-23T14:00:00+00:00") -> Workload:
    """Two loads in a graph, and their sum in one that came ten seconds later."""
    load, total = Group("load", 0), Group("sum")
    return Workload(
        distributed="2026.8.0",
        begun=begun,
        graphs=[
            Graph(0.0, 0, [Task(0, load, [], {}), Task(1, load, [], {})], [0, 1]),
            Graph(10.0, 0, [Task(2, total, [0, 1], {})], [2]),
        ],
        workers=[WorkerEvent(0.0, 0, True, 2, 2**30)],
        results={
            0: Result(1.0, 0.5, 1000, False),
            1: Result(2.0, 1.5, 3000, False),
            2: Result(12.0, 1.0, 8, False),
        },
    )


def test_it_shows_what_is_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "monday.schedprof"
    path.write_bytes(write_workload(workload()))
    assert main(["workload", str(path)]) == 0
    assert capsys.readouterr().out == (
        "recorded 2026-11-23T14:00:00+00:00 with distributed 2026.8.0, 12.0 s\n"
        "2 graphs, 3 tasks, 2 prefixes\n"
        "1 workers joined with 2 threads, 0 left\n"
        "   tasks    median s  median bytes  erred  prefix\n"
        "       2      1.0000          2000      0  load\n"
        "       1      1.0000             8      0  sum\n"
    )


def test_an_anonymous_one_does_not_tell_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "work.schedprof"
    path.write_bytes(write_workload(workload(begun="")))
    assert main(["workload", str(path)]) == 0
    assert "recorded at some time with distributed 2026.8.0" in capsys.readouterr().out


def test_a_shipped_one_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "recorded_sweep"]) == 0
    assert "96 graphs, 1632 tasks, 3 prefixes" in capsys.readouterr().out
