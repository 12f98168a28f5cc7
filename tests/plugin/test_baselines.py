"""Tests of sessions that save a baseline, and of sessions that are compared with one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import injection
import pytest
from support import Project

from pytest_schedprof.cli.main import main
from pytest_schedprof.model.explanation import Role
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.records import read_record


@pytest.fixture(autouse=True)
def _injection(project: Project) -> None:
    """The scheduler has the project's directory on its path, so it can import `injection`."""
    shutil.copy(injection.__file__, project.path)


COUNTS = ("--schedprof=counts", "--schedprof-cluster=simulated", "--schedprof-workers=4")


def tasks(change: str = "", limits: str = "()", name: str = "test_tasks", count: int = 30) -> str:
    """Source of a test with a fixture that may change the scheduler first."""
    return f"""
from injection import plant, rename

@pytest.fixture
def changed(schedprof_scheduler):
    for function, arguments in [{change}]:
        schedprof_scheduler.client.run_on_scheduler(function, **arguments)

@pytest.mark.schedprof{limits}
def {name}(schedprof_scheduler, changed):
    wait(schedprof_scheduler.client.map(inc, range({count}), pure=False))
"""


SLOWER = (
    '(plant, dict(module="distributed.scheduler", qualname="SchedulerState._transition", '
    'statement="_ = None"))'
)
RENAMED = (
    '(rename, dict(module="distributed.scheduler", qualname="SchedulerState._transition", '
    'name="_step"))'
)


def newest_summary(project: Project) -> str:
    newest = max((project.path / ".schedprof").glob("2*"))
    return (newest / "summary.md").read_text(encoding="utf-8")


SCANNING = (
    '(plant, dict(module="distributed.scheduler", qualname="SchedulerState.check_idle_saturated", '
    'statement="any(each.status is None for each in self.workers.values())"))'
)


@pytest.mark.slow
@pytest.mark.timeout(240)  # four sessions
def test_a_change_of_one_percent_fails_the_test_and_tells_what_changed(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A renamed function is a shift. The first line names what scans, and not what it calls."""
    saved = project.run_test(tasks(), *COUNTS, "--schedprof-save=main")
    saved.assert_outcomes(passed=1)
    saved.stdout.fnmatch_lines(["baseline 'main': 1 test saved in *baselines/main"])

    slower = project.run_test(tasks(SLOWER), *COUNTS, "--schedprof-compare=latest")
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(
        [
            "schedprof: regressed against 'main': bytecodes of "
            "distributed.scheduler:SchedulerState._transition: * before, * now per task (+1.*%): "
            "its code differs; see *",
            "compared with main: 1 regressed, * the same in 1 test",
            "*regressed  bytecodes*transitions*distributed.scheduler:SchedulerState._transition",
        ]
    )
    summary = newest_summary(project)
    assert (
        "\n- Compared with `main`.\n\n### Regressions\n\n**❌ `test_it.py::test_tasks`**" in summary
    )
    assert "\n| regressed | bytecodes |" in summary
    for strict in ((), ("--strict",)):
        before, after = sorted((project.path / ".schedprof").glob("2*"))
        assert main(["compare", str(before), str(after), *strict]) == 1
        assert main(["compare", str(after), str(before), *strict]) == 0

    renamed = project.run_test(tasks(RENAMED), *COUNTS, "--schedprof-compare=main")
    renamed.assert_outcomes(passed=1)
    renamed.stdout.fnmatch_lines(["compared with main: ? shifted, * the same in 1 test"])

    scanning = project.run_test(tasks(SCANNING), *COUNTS, "--schedprof-compare=main")
    scanning.assert_outcomes(failed=1)
    function = "distributed.scheduler:SchedulerState.check_idle_saturated"
    cause = f"bytecodes of {function}: * before, * now per task (*%): its code differs, and * from"
    scanning.stdout.fnmatch_lines([f"schedprof: regressed against 'main': {cause} it; see *"])
    scanning.stdout.fnmatch_lines([f"  {cause} it"])
    assert function in newest_summary(project).partition("### Regressions")[2].split("\n- ")[1]
    (comparison,) = _newest_result(project).comparisons
    assert [(of.function, of.role) for of in comparison.causes] == [(function, Role.CHANGED)]
    capsys.readouterr()
    assert main(["explain", "--dir", str(project.path / ".schedprof"), "-q"]) == 0
    assert function in capsys.readouterr().out.splitlines()[2]


@pytest.mark.slow
def test_relative_limits_are_held_against_the_baseline(project: Project) -> None:
    limits = '("calls(distributed.scheduler:*) <= baseline * 1.01", "bytecodes <= baseline + 5")'
    project.run_test(tasks(limits=limits), *COUNTS, "--schedprof-save=main").stdout.fnmatch_lines(
        ["limits: 2 skipped (need a backend or baseline that was not chosen)"]
    )
    held = project.run_test(tasks(SLOWER, limits), *COUNTS, "--schedprof-compare=main")
    held.assert_outcomes(failed=1)  # two bytecodes more, six times per task
    held.stdout.fnmatch_lines(
        [
            "schedprof: limit broken: bytecodes <= baseline + 5: the scheduler takes * bytecodes "
            "(before: *) per task over 90 tasks; see *",
            "limits: 1 passed, 1 broken",
        ]
    )
    relaxed = limits.replace("+ 5", "* 1.1")
    passed = project.run_test(tasks(SLOWER, relaxed), *COUNTS, "--schedprof-compare=main")
    passed.assert_outcomes(passed=1)  # its own limits decide what a regression is
    (_, _, newest) = sorted((project.path / ".schedprof").glob("2*"))
    assert main(["compare", "main", str(newest), "--dir", str(project.path / ".schedprof")]) == 1


@pytest.mark.slow
def test_times_alone_are_compared_by_confidence(project: Project) -> None:
    body = tasks(count=100)
    options = ("--schedprof=cputime", "--schedprof-rounds=3", "--schedprof-rate=250", *COUNTS[1:])
    project.run_test(body, *options, "--schedprof-save=main").assert_outcomes(passed=1)
    # CPU time that is the same is not listed, and whether it is seen to be so is random.
    slower = f"{body}    burn(schedprof_scheduler, 0.4)\n"
    project.run_test(slower, *options, "--schedprof-compare=main").assert_outcomes(**_ran(project))
    (comparison,) = _newest_result(project).comparisons
    assert comparison.backend == "cputime"
    assert not comparison.reasons
    assert any(of.metric == "cpu" and of.after > of.before for of in comparison.changes)
    before, after = sorted((project.path / ".schedprof").glob("2*"))
    assert main(["compare", str(before), str(before)]) == 0
    assert "change, absolute" in _page(after)  # from the samples of the saved run
    assert "change, absolute" not in _page(before)


def _ran(project: Project) -> dict[str, int]:
    """Expected outcome of one test: passed, or failed because of its comparison."""
    is_worse = _newest_result(project).verdict is Verdict.FAIL
    return {"failed" if is_worse else "passed": 1}


def _page(run: Path) -> str:
    (page,) = run.glob("tests/*/index.html")
    return page.read_text()


def _newest_result(project: Project) -> Result:
    newest = sorted((project.path / ".schedprof").glob("2*"))[-1]
    (path,) = newest.glob("tests/*/result.json")
    return read_record(path, Result)


@pytest.mark.slow
def test_a_worker_of_xdist_and_a_shard_make_one_baseline(project: Project) -> None:
    for name in ("one", "two", "three"):
        project.write(tasks(name=f"test_{name}", count=10), f"test_{name}.py")
    project.run(*COUNTS, "-n", "1", "test_one.py", "test_two.py", "--schedprof-save=ci")
    project.run(*COUNTS, "test_three.py", "--schedprof-save=ci").assert_outcomes(passed=1)
    baseline = project.path / ".schedprof" / "baselines" / "ci"
    assert len(list(baseline.glob("*.json"))) == 2
    whole = project.run(*COUNTS, "--schedprof-compare=ci")
    whole.assert_outcomes(passed=3)
    whole.stdout.fnmatch_lines(["compared with ci: * the same in 3 tests"])


@pytest.mark.slow
def test_a_baseline_that_cannot_be_saved_fails_the_session(project: Project) -> None:
    (project.path / "file").touch()
    result = project.run_test(tasks(count=10), *COUNTS, "--schedprof-save=file/main")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["schedprof: cannot write 'file/main*"])
    assert project.result().backends  # the run exists, so a baseline can be saved from it


@pytest.mark.slow
def test_tests_that_only_one_side_has_are_told(project: Project) -> None:
    body = tasks(count=10) + "\ndef test_bad(schedprof_scheduler):\n    assert False\n"
    saved = project.run_test(body, *COUNTS, "--schedprof-save=main")
    saved.stdout.fnmatch_lines(
        ["baseline 'main': 1 test saved in *; 1 test left out, which did not pass"]
    )
    renamed = project.run_test(
        tasks(name="test_other", count=10), *COUNTS, "--schedprof-compare=main"
    )
    renamed.assert_outcomes(passed=1)
    renamed.stdout.fnmatch_lines(
        ["  new: test_it.py::test_other", "  vanished: test_it.py::test_tasks"]
    )
    summary = newest_summary(project)
    assert (
        "\n- new: test\\_it.py::test\\_other\n- vanished: test\\_it.py::test\\_tasks\n" in summary
    )
    subset = project.run(*COUNTS, "--schedprof-compare=main", "-k", "nothing")
    subset.stdout.no_fnmatch_line("*vanished*")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("main", "there is no .*baselines in .*: none"),
        ("corrupt.json", "is corrupt"),
        ("latest", "no baseline has been saved in .*: save one with --schedprof-save=NAME"),
        ("somewhere/else.json", "there is no 'somewhere/else.json'"),
        ("nowhere://bucket/x.json", "Protocol not known: nowhere"),
        ("http://127.0.0.1:1/x.json", "cannot read 'http://127.0.0.1:1/x.json'"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_one_clear_line(
    project: Project, spec: str, words: str
) -> None:
    """`tests/pure` has everything that is wrong with a file."""
    (project.path / "corrupt.json").write_text('{"run_id": "x", "saved_at": "y", "resu')
    line = project.refusal(f"--schedprof-compare={spec}")
    assert line.startswith("ERROR: schedprof: ")
    assert re.search(words, line)
