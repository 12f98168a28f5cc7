"""Tests of `schedprof workload`: what it shows, and the files and pages that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_schedprof.cli.main import main
from pytest_schedprof.formats.workload import read_workload, write_workload
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


@pytest.fixture
def monday(tmp_path: Path) -> Path:
    path = tmp_path / "monday.schedprof"
    path.write_bytes(write_workload(workload()))
    return path


def made(path: Path, *arguments: str) -> Workload:
    """Return what the command writes."""
    out = path.with_name("made.schedprof")
    out.unlink(missing_ok=True)
    assert main(["workload", str(path), *arguments, "-o", str(out)]) == 0
    return read_workload(out.read_bytes())


def prefixes(of: Workload) -> list[str]:
    return [each.group.prefix for each in of.tasks()]


def test_it_shows_what_would_be_written(monday: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(monday), "--tasks", "3", "--workers", "2"]) == 0
    assert capsys.readouterr().out == (
        "recorded 2026-11-23T14:00:00+00:00 with distributed 2026.8.0, 12.0 s\n"
        "6 graphs, 9 tasks, 2 prefixes\n"
        "2 workers joined with 4 threads, 0 left\n"
        "   tasks    median s  median bytes  erred  prefix\n"
        "       6      1.0000          2000      0  load\n"
        "       3      1.0000             8      0  sum\n"
    )


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], ["load", "load", "sum"]),
        (["--until", "10s"], ["load", "load", "sum"]),
        (["--until", "9s"], ["load", "load"]),
        (["--from", "500ms"], ["load", "load", "sum"]),  # the sum needs both
        (["--only", "lo*"], ["load", "load"]),
        (["--tasks", "2", "--only", "sum"], ["load", "load", "sum"] * 2),
        (["--anonymise"], ["prefix-a", "prefix-a", "prefix-b"]),
    ],
)
def test_parts_and_copies_are_written(
    monday: Path, arguments: Sequence[str], found: Sequence[str]
) -> None:
    assert prefixes(made(monday, *arguments)) == found


def test_a_cut_begins_at_its_time(monday: Path) -> None:
    part = made(monday, "--from", "9s")
    assert [each.time for each in part.graphs] == [1.0]
    assert part.results[0] == Result(1.0, 0.0, 1000, False)


def test_copies_can_be_apart(monday: Path) -> None:
    scaled = made(monday, "--tasks", "2", "--apart", "1min")
    assert [each.time for each in scaled.graphs] == [0.0, 10.0, 60.0, 70.0]


def test_several_files_become_one(monday: Path, tmp_path: Path) -> None:
    tuesday = tmp_path / "tuesday"
    tuesday.write_bytes(write_workload(workload("2026-11-23T15:00:00+01:00")))
    assert prefixes(made(monday, str(tuesday))) == ["load"] * 4 + ["sum"] * 2
    tuesday.write_bytes(write_workload(workload("2026-11-24T14:00:00+00:00")))
    merged = made(monday, str(tuesday), "--by-clock")
    assert [each.time for each in merged.graphs] == [0.0, 10.0, 86400.0, 86410.0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--until", "soon"], "--until must be a time such as 10s, 5min or 2h, got 'soon'"),
        (["--from", "-1s"], "--from must be a time such as 10s, 5min or 2h, got '-1s'"),
        (["--apart", "1e999s"], "--apart must be a time"),
        (["--tasks", "0"], "--tasks must be a whole number from 1 to 10000, got '0'"),
        (["--workers", "2.5"], "--workers must be a whole number from 1 to 10000, got '2.5'"),
        (["--only", "nothing"], "no task is left"),
        (["--from", "1h"], "no task is left: --from, --until and --only leave out all of 12.0 s"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_written(
    monday: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], complaint: str
) -> None:
    out = monday.with_name("made.schedprof")
    option = "=".join(arguments)  # values may begin with a dash
    status = main(["workload", str(monday), "-o", str(out), option])
    assert status == 2
    assert complaint in capsys.readouterr().err
    assert not out.exists()


def test_files_are_kept(monday: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = monday.read_bytes()
    assert main(["workload", str(monday), "--tasks", "2", "-o", str(monday)]) == 2
    assert "File exists" in capsys.readouterr().err
    assert monday.read_bytes() == before


def test_who_was_recorded_at_an_unknown_time_has_no_clock(
    monday: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(monday, "--anonymise")
    hidden = monday.with_name("made.schedprof")
    assert main(["workload", str(monday), str(hidden), "--by-clock"]) == 2
    assert "one of them does not tell it" in capsys.readouterr().err
    assert main(["workload", str(hidden)]) == 0
    assert "recorded at some time with distributed 2026.8.0" in capsys.readouterr().out


def test_a_page_is_written_over_an_earlier_one(monday: Path) -> None:
    page = monday.with_name("page.html")
    for _ in range(2):
        assert main(["workload", str(monday), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") >= 5
    assert "monday.<wbr>schedprof" in text


def test_a_shipped_one_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "recorded_sweep"]) == 0
    assert "96 graphs, 1632 tasks, 3 prefixes" in capsys.readouterr().out
