"""Tests of a session's summary, and of the commands that read its run or a recorded workload."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import Finished, Project
from written_workloads import write_workload

from pytest_schedprof.cli.main import main
from pytest_schedprof.model.run import Run
from pytest_schedprof.model.workload import Graph, Group, Result, Task, WorkerEvent, Workload
from pytest_schedprof.store.records import encode, read_record
from pytest_schedprof.store.run_directory import safe_name
from pytest_schedprof.store.runs import removable

BODY = """
KEPT = pytest.mark.schedprof("calls(@transitions) <= 1000")
BROKEN = pytest.mark.schedprof("calls(@transitions) <= 0.001")

@pytest.mark.parametrize(
    "name", [pytest.param("<script>", marks=BROKEN), pytest.param("a|b`c", marks=KEPT)]
)
def test_it(schedprof_scheduler, name):
    burn(schedprof_scheduler, 0.2)
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

BROKEN, KEPT = "test_it.py::test_it[<script>]", "test_it.py::test_it[a|b`c]"

SESSION = [
    "--schedprof=cputime,counts,cprofile,viztracer",
    *("--schedprof-cluster=simulated", "--schedprof-workers=2", "--junitxml=junit.xml"),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A session whose files no test may change."""
    path = tmp_path_factory.mktemp("session")
    page = str(path / "page.md")
    session = Finished(path, {"test_it.py": BODY}, *SESSION, GITHUB_STEP_SUMMARY=page)
    assert session.process.returncode == 1, session.process.stdout
    return session


@pytest.mark.slow
def test_its_summary_is_beside_its_record_and_on_the_page_of_the_job(session: Finished) -> None:
    summary = (session.run_directory / "summary.md").read_text()
    assert summary.startswith("## ❌ Scheduler performance: limits: ")
    assert f"\n### Broken limits\n\n- `{BROKEN}`: `calls(@transitions)" in summary
    assert (session.path / "page.md").read_text() == f"{summary}\n"


def test_show_tells_all_of_a_test(session: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    directory = session.path / ".schedprof"
    texts = []
    for place in ("", "/latest", f"/{session.run_directory.name}"):
        assert main(["show", "b`c", "--run", f"{directory}{place}"]) == 0
        texts.append(capsys.readouterr().out)
    text = texts[0]
    assert texts == [text] * 3
    assert text.startswith(f"{KEPT}  passed\n  cputime: ")
    assert "  passed: calls(@transitions) <= 1000: @transitions takes " in text
    for part in ("\n  owners: ", "\n  counts: 20 tasks in ", "\ncluster: simulated, 2 workers"):
        assert part in text
    assert "\n  scheduler.viztracer.json.gz        vizviewer, or Perfetto\n" in text
    assert "\n  scheduler.cprofile.pstats          python -m pstats, or snakeviz\n" in text
    for name in ("nothing", "test_it"):
        assert main(["show", name, "--run", str(directory)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"schedprof: {'no test ' * (name == 'nothing')}{name!r} ")
        assert line.endswith(f"{BROKEN}, {KEPT}")


def test_without_a_command_it_lists_the_tests_of_the_newest_run(
    session: Finished, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(session.path)
    assert main([]) == 0
    head, *tests = capsys.readouterr().out.splitlines()
    assert head.split() == ["verdict", "CPU/task", "bytecodes/task", "test"]
    assert [(test.split()[0], test.split()[-1]) for test in sorted(tests)] == [
        *(("failed", BROKEN), ("pass", KEPT)),
    ]
    run = session.run_directory
    (kept,) = (file for file in run.rglob("result.json") if KEPT in file.read_text())
    for arguments, record in (([], run / "run.json"), (["b`c"], kept)):
        assert main(["show", *arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads(record.read_text())


def test_open_opens_a_page_from_the_disk_and_writes_one_that_is_missing(
    session: Finished,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    run = tmp_path / "a run"
    shutil.copytree(session.run_directory, run)
    page = run / "index.html"
    (of_test,) = (file for file in run.glob("tests/*/index.html") if "a|b`c" in file.read_text())
    assert main(["open", "--run", str(run)]) == 0
    assert main(["open", "b`c", "--run", str(run), "--no-browser"]) == 0
    assert capsys.readouterr().out == f"{page}\n{of_test}\n"
    assert opened == [f"file://{tmp_path}/a%20run/index.html"]
    page.unlink()
    assert main(["open", "--run", str(run), "--no-browser"]) == 0
    assert page.exists()


def test_old_runs_go_and_whatever_else_there_is_stays(session: Finished, tmp_path: Path) -> None:
    record = read_record(session.run_directory / "run.json", Run)
    for number in range(6):
        run = tmp_path / f"run-{number}"
        (run / "tests" / "one").mkdir(parents=True)
        mine = replace(record, run_id=run.name, started_at=f"2026-01-0{number + 1}T00:00:00+00:00")
        (run / "run.json").write_bytes(encode(mine))
    (tmp_path / "run-0").rename(tmp_path / "kept by hand")
    for other in ("baselines/main", "run-that-is-under-way/tests", "notes"):
        (tmp_path / other).mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "run.json").write_text("no record")

    def old(keep: int) -> list[str]:
        return [run.path.name for run in removable(tmp_path, keep)]

    assert old(3) == ["run-1", "run-2"]
    assert old(1) == ["run-1", "run-2", "run-3", "run-4"]
    (tmp_path / "baselines" / "main" / f"{safe_name('run-1')}.json").write_text("of this run")
    (tmp_path / "good").symlink_to(tmp_path / "run-2")
    assert old(1) == ["run-3", "run-4"]


def test_a_page_that_cannot_be_written_is_told_in_a_line_and_fails_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.path / "conftest.py").write_text("""
import pathlib, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    (run,) = pathlib.Path(".schedprof").glob("2*")
    (run / "index.html").mkdir()
""")
    result = project.run_test("""
@pytest.mark.schedprof(backend="counts")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(50)))
""")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["no page of the run: cannot write '*index.html': Is a directory*"])
    (project.run_directory / "index.html").rmdir()
    capsys.readouterr()
    assert main(["open", "--write", "--run", str(project.path / ".schedprof" / "latest")]) == 0
    assert capsys.readouterr().out == f"{project.run_directory / 'index.html'}\n"
    (result_file,) = project.run_directory.glob("tests/*/result.json")
    result_file.write_text("{")
    assert main(["open", "--write", "--run", str(project.run_directory)]) == 0
    page = (project.run_directory / "index.html").read_text()
    assert "no page: " in page
    assert "is corrupt" in page
    run = str(project.run_directory)
    assert main(["compare", run, run]) == 2  # 1 would say that something regressed
    assert "is corrupt" in capsys.readouterr().err
    assert main(["open", "--write", "--run", run, "--against", run]) == 2
    assert "have no test in common" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "{", '{"schema_version": 99}'])
def test_what_is_no_run_is_told(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    assert main(["open", "--write", "--run", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("schedprof: ")
    assert str(tmp_path) in line


def workload() -> Workload:
    """Two loads in a graph, and their sum in one that came ten seconds later."""
    load, total = Group("load", 0), Group("sum")
    return Workload(
        distributed="2026.8.0",
        begun="2026-11-23T14:00:00+00:00",
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
    assert main(["show", str(path)]) == 0
    assert capsys.readouterr().out == (
        "recorded 2026-11-23T14:00:00+00:00 with distributed 2026.8.0, 12.0 s\n"
        "2 graphs, 3 tasks, 2 prefixes\n"
        "1 workers joined with 2 threads, 0 left\n"
        "   tasks    median s  median bytes  erred  prefix\n"
        "       2      1.0000          2000      0  load\n"
        "       1      1.0000             8      0  sum\n"
    )


def test_a_pipe_is_not_waited_for_and_no_record_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.schedprof"
    os.mkfifo(pipe)
    assert main(["show", str(pipe)]) == 2
    assert "pipe.schedprof cannot be read: it is no regular file" in capsys.readouterr().err
    assert main(["show", "--json", "recorded_sweep.schedprof"]) == 2
    assert "--json prints a run or a test" in capsys.readouterr().err


def test_a_shipped_one_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "recorded_sweep.schedprof"]) == 0
    assert "96 graphs, 1632 tasks, 3 prefixes" in capsys.readouterr().out
