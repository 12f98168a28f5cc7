"""Tests of `schedprof explain` on two copies of distributed, of which one has a dearer function."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path

import distributed
import injection
import pytest
from support import Project, environment_behind

from pytest_schedprof.cli.explain import gravest
from pytest_schedprof.cli.main import main
from pytest_schedprof.judge.explanation import explain
from pytest_schedprof.model.explanation import Accounts, Cost

TEST = """
@pytest.mark.schedprof
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(40), pure=False))
"""

OPTIONS = ("--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4")

PLACE = "        ts = self.tasks[key]\n"
"""A line of `_transition_processing_memory`."""

MORE = "        for _ in range(50):\n            pass\n"


ADDED = "is called as before (1 per task), 18 bytecodes more per call"

PLANTING = """
import sys; sys.path.append({path!r})

def dask_setup(scheduler):
    from injection import plant
    plant("distributed.scheduler", "SchedulerState._add_to_memory", {statement!r})
"""


@pytest.fixture
def other(tmp_path: Path) -> tuple[Path, int]:
    """An interpreter with a copy of distributed that does more, and the line where it does."""
    site = environment_behind(tmp_path / "other")
    package = Path(distributed.__file__).parent
    without = shutil.ignore_patterns("tests", "__pycache__")
    shutil.copytree(package, site / "distributed", ignore=without)
    file = site / "distributed" / "scheduler.py"
    head, name, tail = file.read_text().partition("def _transition_processing_memory")
    first, place, rest = tail.partition(PLACE)
    assert place
    file.write_text(f"{head}{name}{first}{MORE}{place}{rest}")
    return tmp_path / "other" / "bin" / "python", (head + name + first).count("\n") + 1


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_dearer_function_is_explained_by_its_lines(
    project: Project,
    other: tuple[Path, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    interpreter, line = other
    project.is_apart = True
    against = f"--schedprof-against={interpreter}"
    detail = ("--schedprof-option", "counts.detail=true")
    done = project.run_test(TEST, *OPTIONS, against, *detail)
    done.assert_outcomes(passed=1)  # it improved
    run = project.run_directory
    assert "### Why" not in (run / "summary.md").read_text()
    (after,) = run.glob("tests/*")
    capsys.readouterr()

    improved = said(capsys, "test_tasks")
    assert re.search(r"bytecodes: .* now per task \(-\d+", improved)
    text = said(capsys, str(after), str(after / "against"))
    name = "distributed.scheduler:SchedulerState._transition_processing_memory"
    more = r"\d+ bytecodes more per call \(now \d+\)"
    lines = rf"by lines {line} to {line + 1} \(\+\d+, new in this version\) of scheduler.py"
    assert re.search(rf"`{name}` is called as before \(1 per task\), {more}, {lines}", text)
    assert re.search(rf"{line} +\+\d+ \+ +for _ in range\(50\):", text)
    assert "were not counted" not in text

    (why,) = json.loads(said(capsys, "--json", str(after), str(after / "against")))
    assert sum(part["after"]["amount"] - part["before"]["amount"] for part in why["parts"]) == (
        pytest.approx(why["after"] - why["before"])
    )
    assert [part["function"] for part in why["parts"]] == [name]
    assert "range(50)" not in said(capsys, "-q", str(after), str(after / "against"))


@pytest.mark.slow
def test_results_without_sources_and_lines_say_what_is_missing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.run_test(TEST, *OPTIONS, "--schedprof-rounds=1")
    project.run_test(TEST.replace("range(40)", "range(80)"), *OPTIONS, "--schedprof-rounds=1")
    capsys.readouterr()
    first, second = sorted((project.path / ".schedprof").glob("2*"))
    text = said(capsys, "test_tasks", str(first), str(second))
    assert "no sources of A and of B are kept" in text
    assert "to see callers and lines too" in text
    assert not list(first.glob("sources/*"))
    assert main(["explain", "--dir", str(first.parent)]) == 2
    assert "test_tasks was compared with nothing: give two runs" in capsys.readouterr().err


BUSY = """
from time import thread_time
until = thread_time() + 0.002
while thread_time() < until: pass
"""

SAMPLED = ("--schedprof=cputime", "--schedprof-rounds=8", "--schedprof-rate=500")
"""Rounds enough for a machine where CPU time varies by half between them."""

COUNTED = (*OPTIONS, "--schedprof-rounds=1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "statement", "sentence"), [(SAMPLED, BUSY, ""), (COUNTED, "_ = None; " * 9, ADDED)]
)
def test_all_that_tell_why_say_the_same(
    options: tuple[str, ...],
    statement: str,
    sentence: str,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project.is_apart = options is COUNTED
    project.run_test(TEST.replace("range(40)", "range(100)"), *options, "--schedprof-save=main")
    shutil.rmtree(project.run_directory)  # as in CI, where only the baseline is kept
    preload = project.path / "planting.py"
    path = str(Path(injection.__file__).parent)
    preload.write_text(PLANTING.format(path=path, statement=statement))
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", json.dumps([str(preload)]))
    done = project.run(*options, "--schedprof-compare=main")
    done.assert_outcomes(failed=1)
    run = project.run_directory
    (page,) = run.glob("tests/*/index.html")
    capsys.readouterr()
    why = sentences(said(capsys, "-q", "test_tasks"))
    assert why
    assert sentence in why[0]
    assert sentences("\n".join(done.outlines)) == why
    summary = unescape((run / "summary.md").read_text().replace("\\", ""))
    assert sentences(summary, "- ") == why
    assert [listed(file) for file in (page, run / "index.html")] == [why, why]
    assert main(["open", "--write", "--run", str(run)]) == 0
    assert [listed(file) for file in (page, run / "index.html")] == [why, why]


def sentences(text: str, before: str = "  ") -> list[str]:
    """Return what each function adds, without the quotes of names."""
    lines = (line.removeprefix(before) for line in text.splitlines() if line.startswith(before))
    return [line.replace("`", "") for line in lines if re.match(r"[+-]\d.*: ", line)]


def listed(page: Path) -> list[str]:
    """Return the items of a page's list of reasons."""
    (reasons,) = re.findall(r'<ul class="why">(.*?)</ul>', page.read_text(), re.DOTALL)
    items = re.findall(r"<li>(.*?)</li>", reasons, re.DOTALL)
    return [unescape(re.sub("<[^>]+>", "", item)) for item in items]


def test_what_regressed_is_told_however_little_the_whole_rose() -> None:
    before, after = (Accounts(whole, {"f": Cost(whole)}) for whole in (100_000.0, 100_009.0))
    why = explain("test_x", "counts", "bytecodes", before, after)
    assert gravest([why]) == []
    assert gravest([why], {("test_x", "bytecodes")}) == [why]
