"""Tests of `schedprof memory`: several tests and runs in one picture, from a real session."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from bokeh_pages import legend_of, lines_of, title_of
from browsing import ran

from pytest_schedprof.cli.main import main
from pytest_schedprof.model.metric import SAMPLED

BODY = """
@pytest.mark.parametrize("name", ["<script>", "other"])
@pytest.mark.schedprof(evidence="memory", rounds=2)
def test_it(schedprof_scheduler, name):
    burn(schedprof_scheduler, 0.01)

def test_without(schedprof_scheduler):
    burn(schedprof_scheduler, 0.01)
"""

ONE, OTHER = "test_it.py::test_it[<script>]", "test_it.py::test_it[other]"
COPY = "20200101T000000-123456"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two runs, of which one is a copy of the other, saved as `main`."""
    options = ("--schedprof=cputime", "--schedprof-cluster=simulated", "--schedprof-save=main")
    run = ran(tmp_path_factory.mktemp("project"), BODY, *options)
    shutil.copytree(run, run.with_name(COPY))
    return run.parent


@pytest.fixture(autouse=True)
def _there(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".schedprof").symlink_to(runs)
    monkeypatch.chdir(tmp_path)


def newest(runs: Path) -> Path:
    return max(path for path in runs.iterdir() if (path / "run.json").is_file())


@pytest.mark.slow
def test_all_tests_of_the_newest_run(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["memory"]) == 0
    assert capsys.readouterr().out == "memory.html\n"
    page = tmp_path / "memory.html"
    assert legend_of(page) == [f"{test}: {name}" for test in (ONE, OTHER) for name in SAMPLED]
    lines = lines_of(page)
    assert sorted(name for name, _ in lines) == sorted(
        f"{label}, take {take}" for label in legend_of(page) for take in (1, 2)
    )
    assert {places[0] for _, places in lines} == {0}
    assert "<script>]" not in page.read_text()


def test_one_test_of_two_runs(runs: Path, tmp_path: Path) -> None:
    sources = [str(runs), str(runs / COPY)]
    output = ["-o", "two.html"]
    assert main(["memory", *sources, "--test", "other", "--measures", "process", *output]) == 0
    names = [newest(runs).name, COPY]
    assert legend_of(tmp_path / "two.html") == [f"{name}: process" for name in names]
    assert title_of(tmp_path / "two.html") == f"memory of all workers, {OTHER}"


def test_sources_are_directories_of_tests_and_baselines_too(runs: Path, tmp_path: Path) -> None:
    (directory,) = newest(runs).glob("tests/*other*")
    assert main(["memory", "main", str(directory), "--test", ONE]) == 0
    (first, *_) = legend_of(tmp_path / "memory.html")
    assert first == "process, take 1"  # of one test alone
    assert main(["memory", str(directory), "main"]) == 0
    assert len(legend_of(tmp_path / "memory.html")) == 2 * len(SAMPLED)


def test_sides_are_told_apart(runs: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(runs / COPY, tmp_path / "copy")
    (directory,) = copy.glob("tests/*other*")
    for side in ("against", "null"):
        shutil.copytree(runs / COPY / "tests" / directory.name, directory / side)
    assert main(["memory", str(directory), "--measures", "process"]) == 0
    sides = ["now: process", "before: process", "the null arm: process"]
    assert legend_of(tmp_path / "memory.html") == sides


def test_a_test_without_samples_is_left_out(runs: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(runs / COPY, tmp_path / "copy")
    (file,) = copy.glob("tests/*other*/memory.json")
    file.write_text("[]")
    assert main(["memory", str(copy), "--measures", "process, managed"]) == 0
    assert "process, take 1" in legend_of(tmp_path / "memory.html")
    assert title_of(tmp_path / "memory.html") == f"memory of all workers, {ONE}, copy"


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--test", "spam"], 2, "no test 'spam'; known: test_it.py::test_it[<script>], "),
        (["--test", "without"], 1, "has kept memory: run it with --schedprof-evidence=memory"),
        (["--measures", "optimistic"], 2, "--schedprof-option=memory.measures=optimistic adds it"),
        (["nowhere"], 1, "no run in 'nowhere': give the directory of a run"),
    ],
)
def test_mistakes_are_one_line_with_a_remedy(
    arguments: list[str], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["memory", *arguments]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert not Path("memory.html").exists()


def test_a_picture_has_room_for_some_tests_only(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = [tmp_path / str(number) for number in range(11)]
    for copy in copies:
        shutil.copytree(runs / COPY, copy)
    assert main(["memory", *map(str, copies)]) == 2
    assert "room for 20 tests and sides, these are 22: choose" in capsys.readouterr().err
    assert main(["memory", *map(str, copies), "--test", "other"]) == 0


def test_a_file_that_is_corrupt_is_named(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(runs / COPY, tmp_path / "copy")
    (file,) = copy.glob("tests/*other*/memory.json")
    file.write_text("[{")
    assert main(["memory", str(copy)]) == 1
    assert f"{str(file)!r} is corrupt" in capsys.readouterr().err


def test_without_bokeh_it_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    assert main(["memory"]) == 1
    assert "pip install 'pytest-schedprof[evidence]'" in capsys.readouterr().err
