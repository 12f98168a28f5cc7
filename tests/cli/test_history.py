"""Tests of `schedprof history` on runs as pytest writes them, and on unreadable ones."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
from measured import ENVIRONMENT, TASKS, TRANSITION, measured
from msgspec.structs import replace
from support import Project

from pytest_schedprof.cli.main import main
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.limit import Estimate, LimitResult, Verdict
from pytest_schedprof.model.result import (
    BackendResult,
    ClusterFacts,
    FunctionCost,
    FunctionShare,
    MeasuredCosts,
    OwnerShare,
    Result,
    SampledShares,
    Segment,
    Window,
)
from pytest_schedprof.model.run import Commit, Run, TestEntry
from pytest_schedprof.store.records import encode

START = datetime(2026, 3, 1, tzinfo=UTC)
RUNS, STEP = 30, 20
"""Number of runs, and the first of them that costs more."""


def sha(number: int) -> str:
    return f"{number:02d}".ljust(40, "c")


def estimate(value: float) -> Estimate:
    return Estimate(value, value, value, samples=800, dispersion=1.0)


def counts(bytecodes: float) -> BackendResult:
    functions = tuple(
        FunctionCost(name, "transitions", {"calls": calls * TASKS, "bytecodes": part * TASKS})
        for name, calls, part in [(TRANSITION, 6.0, bytecodes), ("distributed.scheduler:f", 1, 9.0)]
    )
    costs = MeasuredCosts(functions, {"transitions": 6.0 * TASKS})
    window = Window(1, (Segment(1.0, 0.9, TASKS, 6 * TASKS),))
    return BackendResult("counts", "", {}, window, None, costs, (), ())


def samples(share: float, cpu_us: float) -> BackendResult:
    shares = SampledShares(
        busy_samples=800,
        idle_samples=0,
        empty_samples=0,
        inference="blocks",
        functions=(FunctionShare(TRANSITION, "transitions", estimate(share), estimate(share)),),
        owners=(OwnerShare("transitions", estimate(share)),),
    )
    window = Window(1, (Segment(1.0, cpu_us * TASKS / 1e6, TASKS, 6 * TASKS),))
    return BackendResult("cputime", "", {}, window, shares, None, (), ())


def result(*backends: BackendResult, version: str = "2026.1.0") -> Result:
    cluster = ClusterFacts("local", "tcp://127.0.0.1:8786", workers=2, threads=4)
    environment = replace(ENVIRONMENT, versions={"distributed": version}, scheduler_machine="")
    facts = {"cluster": cluster, "environment": environment}
    return measured(*backends, test_id="test_a.py::test_b", **facts)


def run_of(number: int, *, branch: str = "main", is_dirty: bool = False) -> Run:
    """A run; commits are a day apart, and the runs were made in reverse order."""
    return Run(
        run_id=f"run-{number}",
        started_at=(START + timedelta(days=200, minutes=-number)).isoformat(),
        exit_status=0,
        tests=(TestEntry("test_a.py::test_b", "passed", Verdict.PASS, "tests/one"),),
        commit=Commit(sha(number), branch, (START + timedelta(days=number)).isoformat(), is_dirty),
    )


def numbered(number: int) -> Result:
    """A result with 1 % more bytecodes and 50 % more CPU from STEP on, but the same share."""
    generator, is_after = random.Random(number), number >= STEP
    return result(
        counts(500.0 * (1.01 if is_after else 1.0)),
        samples(
            0.3 + generator.gauss(0, 0.01),
            400 * (1.5 if is_after else 1) * generator.gauss(1, 0.05),
        ),
        version="2026.3.0" if is_after else "2026.1.0",
    )


Store = Callable[[str, bytes], None]


def write_runs(store: Store) -> None:
    for number in range(RUNS):
        store(f"{number:02d}/run.json", encode(run_of(number)))
        store(f"{number:02d}/tests/one/result.json", encode(numbered(number)))


def into(directory: Path) -> Store:
    def store(name: str, content: bytes) -> None:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return store


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A month of runs, which no test may change."""
    place = tmp_path_factory.mktemp("runs[of a month]")
    write_runs(into(place))
    return place


def recorded(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["history", "--json", *arguments]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def by_name(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{one['metric']}({one['subject']})": one for one in record["series"]}


def test_a_step_is_told_with_its_commit_and_what_else_changed_there(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(runs)]) == 0
    text, errors = capsys.readouterr()
    assert errors == ""
    assert "test_a.py::test_b\n  counts, Python 3.11, local cluster of 2\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("    bytecodes ")]
    assert line.split() == ["bytecodes", "509", "->", "514", "+1.0%", "▁" * 20 + "█" * 10]
    place = f"step at {sha(STEP)[:9]} (2026-03-21), after {sha(STEP - 1)[:9]}:"
    versions = "; distributed 2026.1.0 -> 2026.3.0"
    assert f"      {place} 509 -> 514, +1.0%{versions}\n" in text
    assert f"    bytecodes({TRANSITION})" in text
    assert f"calls({TRANSITION})" not in text  # calls did not change
    assert text.count(place) == 4  # the whole, the owner, the function, and the CPU time
    table, _, why = text.partition("\n\ntest_a.py::test_b  counts\n")
    assert table.endswith(
        f"commits with steps:\n  {sha(STEP)[:9]} (2026-03-21): 4 up, 0 down, in 1 test\n"
        "30 runs, 11 series: 4 steps"
    )
    assert why.startswith("  bytecodes: 509 before, 514 now per task (+5, +1.0%)\n")
    called = "is called as before (6 per task), 0.833 bytecodes more per call (now 84.167)"
    assert f"  +5: `{TRANSITION}` {called}\n" in why


def test_an_output_that_is_closed_is_no_error(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)  # as Python sets it then
    assert main(["history", str(runs)]) == 0


def test_figures_come_in_the_order_of_commits(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = by_name(recorded(capsys, str(runs)))
    figures = series["bytecodes()"]["figures"]
    assert [figure["moment"]["run_id"] for figure in figures] == [f"run-{n}" for n in range(RUNS)]
    (step,) = series["bytecodes()"]["steps"]
    assert (step["at"], step["before"], step["after"]) == (STEP, 509, pytest.approx(514))
    (step,) = series["cpu()"]["steps"]
    assert step["at"] == STEP
    assert step["after"] / step["before"] == pytest.approx(1.5, rel=0.1)
    assert series["share(@transitions)"]["steps"] == []


def test_pages_show_what_changed_over_the_runs(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = shutil.copytree(runs, tmp_path / "runs")
    assert main(["open", "--write", "--run", str(place / "29"), "--history"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page == place / "29" / "index.html"
    for text in (page.read_text(), (place / "29" / "tests" / "one" / "index.html").read_text()):
        assert f"step at {sha(STEP)[:9]} (2026-03-21), after {sha(STEP - 1)[:9]}:" in text
        assert text.count(f"<title>{sha(STEP)[:9]}</title>") == 4  # in four pictures
    run, nothing = str(place / "29"), str(tmp_path / "nothing")
    assert main(["open", "--write", "--run", run, "--history", nothing]) == 1
    assert "there is no" in capsys.readouterr().err


def test_series_are_chosen(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(runs)
    assert set(by_name(recorded(capsys, place, "--metric", "cpu"))) == {"cpu()"}
    small = recorded(
        capsys, place, "--function", "*:f", "--metric", "bytecodes", "--metric", "self"
    )
    assert set(by_name(small)) == {"bytecodes(distributed.scheduler:f)"}
    newest = recorded(capsys, place, "--last", "5", "--test", "*::test_b")
    assert newest["runs"] == 5
    assert newest["series"][0]["figures"][0]["moment"]["run_id"] == "run-25"
    assert main(["history", place, "--last", "5", "--metric", "calls"]) == 0
    text = capsys.readouterr().out
    assert f"calls({TRANSITION})" in text
    assert "4 series with fewer than 6 figures, too few to find steps" in text


def test_timed_figures_of_two_machines_are_two_series_and_exact_ones_are_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = into(tmp_path)
    for number, machine in enumerate(["slow x 2", "quick x 8"]):
        of_run = numbered(number)
        environment = replace(of_run.environment, scheduler_machine=machine)
        store(f"{number}/run.json", encode(run_of(number)))
        store(f"{number}/tests/one/result.json", encode(replace(of_run, environment=environment)))
    assert main(["history", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.count("    bytecodes ") == 1
    assert text.count("    cpu ") == 2
    assert "\n  cputime, Python 3.11, local cluster of 2, on quick x 8\n" in text


def test_one_round_and_several_are_two_series(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = into(tmp_path)
    for number, rounds in enumerate([1, 3]):
        (backend, *_) = numbered(number).backends
        window = Window(rounds, backend.window.segments * rounds)
        store(f"{number}/run.json", encode(run_of(number)))
        repeated = result(replace(backend, window=window))
        store(f"{number}/tests/one/result.json", encode(repeated))
    assert main(["history", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.count("    bytecodes ") == 2
    assert "\n  counts, Python 3.11, local cluster of 2, several rounds\n" in text


def test_tables_for_a_pull_request(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(runs), "--markdown", "--metric", "transitions"]) == 0
    assert capsys.readouterr().out.splitlines()[:6] == [
        "### `test_a.py::test_b`",
        "",
        "counts, Python 3.11, local cluster of 2",
        "",
        "| metric | first | last | change | history | |",
        "|---|--:|--:|--:|---|---|",
    ]


def test_any_file_system_of_fsspec_will_do(capsys: pytest.CaptureFixture[str]) -> None:
    files = fsspec.filesystem("memory")
    write_runs(lambda name, content: files.pipe_file(f"/bucket/{name}", content))
    series = by_name(recorded(capsys, "memory://bucket"))
    files.rm("/bucket", recursive=True)
    assert [step["at"] for step in series["bytecodes()"]["steps"]] == [STEP]


def test_what_cannot_be_read_is_told_in_a_line_each_and_the_rest_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = into(tmp_path)
    write_runs(store)
    store("00/run.json", b"{")
    store("02/run.json", encode(replace(run_of(2), commit=None, started_at="yesterday")))
    (tmp_path / "04/tests/one/result.json").unlink()
    assert main(["history", str(tmp_path)]) == 0
    text, errors = capsys.readouterr()
    assert "28 runs" in text
    lines = errors.splitlines()
    for name, why in [
        ("00/run.json", "is corrupt"),
        ("02/run.json", "is corrupt: 'yesterday' is not a time"),
        ("04/tests/one/result.json", "there is no"),
    ]:
        (line,) = [line for line in lines if f"{name}'" in line]
        assert line.startswith("schedprof: ")
        assert why in line
    assert len(lines) == 3


def test_a_test_whose_body_failed_is_no_figure_and_one_that_broke_a_limit_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = into(tmp_path)
    write_runs(store)
    store("07/tests/one/result.json", encode(replace(numbered(7), outcome="failed")))
    limit = LimitResult("calls <= 1", Verdict.FAIL, (), parsed=parse_limit("calls <= 1"))
    broken = replace(counts(500.0), limits=(limit,))
    store("08/tests/one/result.json", encode(replace(result(broken), outcome="failed")))
    figures = by_name(recorded(capsys, str(tmp_path)))["bytecodes()"]["figures"]
    runs = {figure["moment"]["run_id"] for figure in figures}
    assert {f"run-{n}" for n in range(RUNS)} - runs == {"run-7"}


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        (b"", "{place}/nowhere", "there is no"),
        (b"", "{place}", "no run in"),
        (b"[]", "{place}", "00/run.json' is corrupt"),
        (encode(run_of(0)), "{place}", "have no results"),
        (b"", "nosuch://bucket", "cannot read 'nosuch://bucket'"),
        (b"", "http://127.0.0.1:9/runs/", "'http://127.0.0.1:9/runs/'"),
    ],
)
def test_where_nothing_can_be_read_it_fails(
    content: bytes, place: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content:
        into(tmp_path)("00/run.json", content)
    assert main(["history", place.format(place=tmp_path)]) == 1
    text, errors = capsys.readouterr()
    assert text == ""
    assert errors.startswith("schedprof: ")
    assert words in errors


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--metric", "speed"], 2, "--metric 'speed' is unknown; known: share, self, cpu,"),
        (["--test", "*::test_z"], 2, "tests with results: test_a.py::test_b"),
        (["--function", "*:nothing"], 2, "no figure matches; tests with results: "),
        (["--branch", "work"], 1, "no run of branch 'work' in"),
    ],
)
def test_what_is_not_there_cannot_be_asked_for(
    arguments: list[str],
    status: int,
    words: str,
    runs: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["history", str(runs), *arguments]) == status
    text, errors = capsys.readouterr()
    assert text == ""
    assert words in errors


@pytest.mark.parametrize("arguments", [["--last", "-1"], ["--json", "--markdown"]])
def test_mistakes_on_the_command_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["history", *arguments])
    assert "schedprof history: error: " in capsys.readouterr().err


@pytest.mark.slow
def test_runs_that_pytest_made_are_a_history(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("""
@pytest.mark.schedprof(backend="counts")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
""")
    git = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=one"]):
        subprocess.run([*git, *command], cwd=project.path, check=True)
    project.run().assert_outcomes(passed=1)
    capsys.readouterr()
    series = by_name(recorded(capsys, str(project.path / ".schedprof")))
    (figure,) = series["bytecodes()"]["figures"]
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=project.path, text=True)
    assert figure["moment"]["commit"]["sha"] == head.strip()
    assert not figure["moment"]["commit"]["is_dirty"]
    assert figure["value"] > 1000
