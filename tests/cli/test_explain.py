"""Tests of `schedprof explain` on two copies of distributed, of which one has a dearer function."""

from __future__ import annotations

import json
import re
import shutil
import sysconfig
import venv
from html import unescape
from pathlib import Path

import distributed
import injection
import pytest
from support import HEADER

from pytest_schedprof.cli.main import main

TEST = f"""{HEADER}
@pytest.mark.schedprof
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(40), pure=False))
"""

OPTIONS = ("--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4")

PLACE = "        ts = self.tasks[key]\n"
"""A line of `_transition_processing_memory`."""

MORE = "        for _ in range(50):\n            pass\n"


PLANTING = """
import sys; sys.path.append({path!r})

def dask_setup(scheduler):
    from injection import plant
    plant("distributed.scheduler", "SchedulerState._add_to_memory", "_ = None; " * 9)
"""


@pytest.fixture
def other(tmp_path: Path) -> tuple[Path, int]:
    """An interpreter with a copy of distributed that does more, and the line where it does."""
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "other").glob("lib/python*/site-packages")
    behind = sysconfig.get_path("purelib")
    (site / "behind.pth").write_text(f"import site; site.addsitedir({behind!r})")
    package = Path(distributed.__file__).parent
    without = shutil.ignore_patterns("tests", "__pycache__")
    shutil.copytree(package, site / "distributed", ignore=without)
    file = site / "distributed" / "scheduler.py"
    head, found, tail = file.read_text().partition("def _transition_processing_memory")
    first, place, rest = tail.partition(PLACE)
    assert place
    file.write_text(f"{head}{found}{first}{MORE}{place}{rest}")
    return tmp_path / "other" / "bin" / "python", (head + found + first).count("\n") + 1


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_dearer_function_is_explained_by_its_lines(
    pytester: pytest.Pytester,
    other: tuple[Path, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    interpreter, line = other
    pytester.makepyfile(test_it=TEST)
    against = f"--schedprof-against={interpreter}"
    detail = ("--schedprof-option", "counts.detail=true")
    done = pytester.runpytest_subprocess(*OPTIONS, against, *detail, timeout=120)
    done.assert_outcomes(passed=1)  # it improved
    (run,) = (pytester.path / ".schedprof").glob("2*")
    assert "### Why" not in (run / "summary.md").read_text()
    (here,) = run.glob("tests/*")
    capsys.readouterr()

    improved = said(capsys, "test_tasks")
    assert re.search(r"bytecodes: .* now per task \(-\d+", improved)
    told = said(capsys, str(here), str(here / "against"))
    name = "distributed.scheduler:SchedulerState._transition_processing_memory"
    more = r"\d+ bytecodes more per call \(now \d+\)"
    lines = rf"by lines {line} to {line + 1} \(\+\d+, new in this version\) of scheduler.py"
    assert re.search(rf"`{name}` is called as before \(1 per task\), {more}, {lines}", told)
    assert re.search(rf"{line} +\+\d+ \+ +for _ in range\(50\):", told)
    assert "were not counted" not in told

    (found,) = json.loads(said(capsys, "--json", str(here), str(here / "against")))
    assert sum(each["after"]["amount"] - each["before"]["amount"] for each in found["parts"]) == (
        pytest.approx(found["after"] - found["before"])
    )
    assert [each["function"] for each in found["parts"]] == [name]
    assert "range(50)" not in said(capsys, "-q", str(here), str(here / "against"))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_results_without_sources_and_lines_say_what_is_missing(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.makepyfile(test_it=TEST)
    pytester.runpytest_subprocess(*OPTIONS, "--schedprof-rounds=1", timeout=60)
    pytester.makepyfile(test_it=TEST.replace("range(40)", "range(80)"))
    pytester.runpytest_subprocess(*OPTIONS, "--schedprof-rounds=1", timeout=60)
    first, second = sorted((pytester.path / ".schedprof").glob("2*"))
    told = said(capsys, "test_tasks", str(first), str(second))
    assert "no sources of A and of B are kept" in told
    assert "callers and lines were not counted" in told
    assert not list(first.glob("sources/*"))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_page_and_the_summary_say_why_a_test_regressed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    pytester.makepyfile(test_it=TEST)
    shutil.copy(injection.__file__, pytester.path)
    once = (*OPTIONS, "--schedprof-rounds=1")
    pytester.runpytest_subprocess(*once, "--schedprof-save=main", timeout=60)
    (saved,) = (pytester.path / ".schedprof").glob("2*")
    shutil.rmtree(saved)
    preload = pytester.path / "planting.py"
    preload.write_text(PLANTING.format(path=str(pytester.path)))
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", json.dumps([str(preload)]))
    both = ("--schedprof-compare=main", "--schedprof-save=main")
    pytester.runpytest_subprocess(*once, *both, timeout=60).assert_outcomes(failed=1)
    (run,) = (pytester.path / ".schedprof").glob("2*")
    sentence = "is called as before (1 per task), 18 bytecodes more per call"
    assert sentence in (run / "summary.md").read_text().replace("\\", "")
    (page,) = run.glob("tests/*/index.html")
    assert sentence in page.read_text()


BUSY = """
import sys; sys.path.append({path!r})

def dask_setup(scheduler):
    from slowing import slow_down
    slow_down("distributed.scheduler", "SchedulerState._add_to_memory", 0.002, scheduler)
"""

SAMPLED = ("--schedprof=cputime", "--schedprof-rounds=3", "--schedprof-rate=500")
COUNTED = (*OPTIONS, "--schedprof-rounds=1")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("options", "planting"), [(SAMPLED, BUSY), (COUNTED, PLANTING)])
def test_all_that_tell_why_say_the_same(
    options: tuple[str, ...],
    planting: str,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    pytester.makepyfile(test_it=TEST.replace("range(40)", "range(300)"))
    pytester.runpytest_subprocess(*options, "--schedprof-save=main", timeout=80)
    preload = pytester.path / "planting.py"
    preload.write_text(planting.format(path=str(Path(injection.__file__).parent)))
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", json.dumps([str(preload)]))
    done = pytester.runpytest_subprocess(*options, "--schedprof-compare=main", timeout=80)
    done.assert_outcomes(failed=1)
    run = max((pytester.path / ".schedprof").glob("2*"))
    capsys.readouterr()
    told = sentences(said(capsys, "-q", "test_tasks"))
    assert told
    assert sentences("\n".join(done.outlines)) == told
    assert sentences(unescaped(run / "summary.md"), "- ") == told
    (page,) = run.glob("tests/*/index.html")
    for each in (page, run / "index.html"):
        assert listed(each) == told
    assert main(["report", str(run)]) == 0
    for each in (page, run / "index.html"):
        assert listed(each) == told


def sentences(text: str, before: str = "  ") -> list[str]:
    """Return what each function adds, without the quotes of names."""
    lines = (line.removeprefix(before) for line in text.splitlines() if line.startswith(before))
    return [line.replace("`", "") for line in lines if re.match(r"[+-]\d.*: ", line)]


def unescaped(file: Path) -> str:
    return unescape(file.read_text().replace("\\", ""))


def listed(page: Path) -> list[str]:
    """Return the items of a page's list of reasons."""
    (found,) = re.findall(r'<ul class="why">(.*?)</ul>', page.read_text(), re.DOTALL)
    items = re.findall(r"<li>(.*?)</li>", found, re.DOTALL)
    return [unescape(re.sub("<[^>]+>", "", each)) for each in items]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_baseline_brings_its_sources(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in CI, where the run that saved it is gone."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    pytester.makepyfile(test_it=TEST)
    once = (*OPTIONS, "--schedprof-rounds=1")
    pytester.runpytest_subprocess(*once, "--schedprof-save=main", timeout=60)
    (saved,) = (pytester.path / ".schedprof").glob("2*")
    shutil.rmtree(saved)
    pytester.runpytest_subprocess(*once, "--schedprof-compare=main", timeout=60)
    (here,) = (pytester.path / ".schedprof").glob("2*/tests/*")
    capsys.readouterr()
    told = said(capsys, "test_tasks", "main", str(here))
    assert "no sources" not in told
    assert said(capsys, "test_tasks") == told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "b", "c", "d"], "'d' is too much: give a test, and two runs or baselines"),
        (["--metric=banana"], "metric 'banana' is not divided among functions; known: "),
        (["no", "such"], "there is no '.schedprof/baselines/no'"),
        (["test_x"], "no run in"),
    ],
)
def test_a_mistake_is_named(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", *arguments]) > 0
    assert said in capsys.readouterr().err
