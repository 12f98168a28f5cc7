"""Tests of sessions that save a baseline, or are compared with one or with a directory of runs."""

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
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.explanation import Role
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.baselines import load
from pytest_schedprof.store.records import read_record


@pytest.fixture(autouse=True)
def _injection(project: Project) -> None:
    """The scheduler has the project's directory on its path, so it can import `injection`."""
    shutil.copy(injection.__file__, project.path)


COUNTS = ("--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4")
IN_REAL_TIME = (*COUNTS, "--schedprof-cluster=local")
ONCE = (*COUNTS, "--schedprof-rounds=1")


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


def newest(project: Project) -> Path:
    return max((project.path / ".schedprof").glob("2*"))


def newest_summary(project: Project) -> str:
    return (newest(project) / "summary.md").read_text(encoding="utf-8")


SCANNING = (
    '(plant, dict(module="distributed.scheduler", qualname="SchedulerState.check_idle_saturated", '
    'statement="any(each.status is None for each in self.workers.values())"))'
)


LIMITS = '("calls(distributed.scheduler:*) <= baseline * 1.01", "bytecodes <= baseline + 5")'
RELAXED = LIMITS.replace("+ 5", "* 1.1")


def with_limits(change: str = "") -> str:
    """Source of a test without limits, and of two whose limits decide what a regression is."""
    limited = (tasks(change, LIMITS, "test_limited"), tasks(change, RELAXED, "test_relaxed"))
    return "".join([tasks(change), *limited])


@pytest.mark.slow
def test_a_change_of_one_percent_fails_the_test_and_tells_what_changed(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A renamed function is a shift. The first line names what scans, and not what it calls."""
    saved = project.run_test(with_limits(), *COUNTS, "--schedprof-save=main")
    saved.assert_outcomes(passed=3)
    saved.stdout.fnmatch_lines(
        [
            "limits: 4 skipped (need a backend or baseline that was not chosen)",
            "baseline 'main': 3 tests saved in *baselines/main",
        ]
    )

    slower = project.run_test(with_limits(SLOWER), *COUNTS, "--schedprof-compare=latest")
    slower.assert_outcomes(failed=2, passed=1)  # two bytecodes more, six times per task
    slower.stdout.fnmatch_lines(
        [
            "schedprof: regressed against 'main': bytecodes of "
            "distributed.scheduler:SchedulerState._transition: * before, * now per task (+1.*%): "
            "its code differs; the scheduler +0.1[89]%",
            "  why:    schedprof explain test_it.py::test_tasks",
            "  again:  pytest test_it.py::test_tasks --schedprof=counts * --schedprof-compare=*",
            "schedprof: limit broken: bytecodes <= baseline + 5: the scheduler takes * bytecodes "
            "(before: *) per task over 30 tasks; see *",
            "limits: 3 passed, 1 broken",
            "compared with main: * regressed, * the same in 3 tests",
            "*regressed  bytecodes*transitions*distributed.scheduler:SchedulerState._transition",
        ]
    )
    summary = newest_summary(project)
    assert (
        "\n- Compared with `main`.\n\n### Regressions\n\n**❌ `test_it.py::test_tasks`**" in summary
    )
    assert "\n| regressed | bytecodes |" in summary
    runs = str(project.path / ".schedprof")
    assert main(["compare", "main", str(newest(project)), "--dir", runs]) == 1
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
    cause = f"bytecodes of {function}: * before, * now per task (*%): its code differs"
    cause = f"{cause}; the scheduler +*%; 1 cause, * figures"
    scanning.stdout.fnmatch_lines([f"schedprof: regressed against 'main': {cause}", f"  {cause}"])
    assert function in newest_summary(project).partition("### Regressions")[2].split("\n- ")[1]
    (comparison,) = _newest_result(project).comparisons
    assert [(cause.function, cause.role) for cause in comparison.causes] == [
        (function, Role.CHANGED)
    ]
    capsys.readouterr()
    assert main(["explain", "--dir", runs, "-q"]) == 0
    assert function in capsys.readouterr().out.splitlines()[2]


def _newest_result(project: Project) -> Result:
    (path,) = newest(project).glob("tests/*/result.json")
    return read_record(path, Result)


@pytest.mark.slow
def test_a_worker_of_xdist_and_a_shard_make_one_baseline(project: Project) -> None:
    for name in ("one", "two"):
        project.write(tasks(name=f"test_{name}", count=10), f"test_{name}.py")
    project.is_apart, project.plugins = True, ("xdist",)
    project.run(*ONCE, "-n", "1", "test_one.py", "--schedprof-save=ci")
    project.is_apart = False
    project.run(*ONCE, "test_two.py", "--schedprof-save=ci").assert_outcomes(passed=1)
    baseline = project.path / ".schedprof" / "baselines" / "ci"
    assert len(list(baseline.glob("*.json"))) == 2
    whole = project.run(*ONCE, "--schedprof-compare=ci")
    whole.assert_outcomes(passed=2)
    whole.stdout.fnmatch_lines(["compared with ci: * the same in 2 tests"])


@pytest.mark.slow
def test_a_baseline_that_cannot_be_saved_fails_the_session(project: Project) -> None:
    """That is said under -q too, where little else is."""
    nowhere = "--schedprof-save=nowhere://bucket/main"
    result = project.run_test(tasks(count=10), *ONCE, "-q", nowhere)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "schedprof: artifacts of 1 profiled test: *",
            "schedprof: page of the run: *",
            "schedprof: cannot write 'nowhere://bucket/main*",
        ]
    )
    assert project.result().backends  # the run exists, so a baseline can be saved from it


HALF_DONE = """
@pytest.mark.schedprof("transitions <= 1")
def test_bad(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(3), pure=False))
    assert False
"""


@pytest.mark.slow
def test_tests_that_only_one_side_has_are_told(project: Project) -> None:
    body = tasks(count=10) + HALF_DONE
    saved = project.run_test(body, *ONCE, "--schedprof-save=main")
    saved.stdout.fnmatch_lines(
        ["baseline 'main': 1 test saved in *; 1 test left out, which did not pass"]
    )
    half_done = project.results()["test_bad"]
    assert half_done.verdict is Verdict.FAIL
    assert not half_done.is_usable
    renamed = project.run_test(
        tasks(name="test_other", count=10), *ONCE, "--schedprof-compare=main"
    )
    renamed.assert_outcomes(passed=1)
    renamed.stdout.fnmatch_lines(
        [
            "compared with main: no test in common",
            "not in the baseline: test_it.py::test_other",
            "vanished: test_it.py::test_tasks",
        ]
    )
    subset = project.run(*ONCE, "--schedprof-compare=main", "-k", "nothing")
    subset.stdout.no_fnmatch_line("*vanished*")


LEFT_OUT = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.name != "test_tasks"]
"""


@pytest.mark.slow
def test_a_test_that_a_conftest_takes_away_has_not_vanished(project: Project) -> None:
    """Also where a worker of xdist collects."""
    project.write(tasks(count=10) + "\n\n" + tasks(name="test_other", count=10))
    project.run(*ONCE, "--schedprof-save=main").assert_outcomes(passed=2)
    project.write(LEFT_OUT, "conftest.py")
    here = project.run(*ONCE, "--schedprof-compare=main")
    project.is_apart, project.plugins = True, ("xdist",)
    in_a_worker = project.run(*ONCE, "-n", "1", "--schedprof-compare=main")
    for compared in (here, in_a_worker):
        compared.assert_outcomes(passed=1)
        compared.stdout.fnmatch_lines(["compared with main: * the same in 1 test*"])
        compared.stdout.no_fnmatch_line("vanished:*")


TOLD = f"thresholds from {LEAST_RUNS} earlier runs"


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
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page of the job that cannot be written is one line and no failure."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path))
    rounds = "(rounds=3)"
    quick = project.run_test(tasks(limits=rounds), *IN_REAL_TIME)
    assert quick.ret == 0
    (line,) = [line for line in quick.outlines if "GITHUB_STEP_SUMMARY" in line]
    assert line.startswith(f"schedprof: cannot append the summary to {str(project.path)!r}")
    first = newest(project)
    for days in range(1, LEAST_RUNS):
        again(first, days)
    slower = tasks(SLOWER, rounds)
    failed = project.run_test(slower, *IN_REAL_TIME, "--schedprof-compare=.schedprof")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines([f"  {TOLD}", "*regressed  bytecodes*SchedulerState._transition"])
    run = newest(project)
    assert f"- {TOLD}\n" in (run / "summary.md").read_text(encoding="utf-8")
    (page,) = run.glob("tests/*/index.html")
    assert TOLD in page.read_text()
    (comparison,) = _newest_result(project).comparisons
    capsys.readouterr()
    # The run is among those of the directory by now, which then stands for the runs before it.
    for place in (run.parent, f"file://{run.parent}"):
        assert main(["compare", str(place), str(run), "--json"]) == 1
        shown = json.loads(capsys.readouterr().out)["comparisons"][0]
        assert shown["thresholds"]["runs"] == LEAST_RUNS
        assert len(shown["changes"]) == len(comparison.changes)
    assert main(["compare", str(run.parent), f"{run.parent}/latest"]) == 1
    assert "compared with" in capsys.readouterr().out

    oldest, second, *_ = sorted(run.parent.glob("2*"))
    assert main(["compare", str(run.parent), str(second)]) == 0
    short = f"constant thresholds: 1 earlier run, {LEAST_RUNS} tell how much figures vary"
    assert short in capsys.readouterr().out
    assert main(["compare", str(run.parent), str(oldest)]) == 2
    assert f"there is no run before '{oldest}'" in capsys.readouterr().err


IN_PROCESS = """
from distributed.utils_test import gen_cluster
from injection import plant, uproot

@pytest.fixture
def planted():
    if os.environ["PYTHONHASHSEED"] == "2":
        scan = "sorted(x for x in ALL_TASK_STATES)"
        plant("distributed.scheduler", "SchedulerState._transition", scan)
    yield
    uproot("distributed.scheduler")

@pytest.mark.schedprof(backend="counts")
@gen_cluster(client=True, **PATIENT)
async def test_same(c, s, a, b):
    await wait(c.map(inc, range(20)))

@pytest.mark.usefixtures("planted")
@pytest.mark.schedprof(backend="counts")
@gen_cluster(client=True, **PATIENT)
async def test_planted(c, s, a, b):
    await wait(c.map(inc, range(20)))
"""

TRANSITION = "distributed.scheduler:SchedulerState._transition"
MOVED_BY_THE_SEED = f"{TRANSITION}.<locals>.<genexpr>"


def bytecodes_of(result: Result) -> float:
    """Bytecodes of the function that iterates over the states of a task group."""
    (backend,) = result.backends
    assert backend.costs
    total = {cost.function: cost.total for cost in backend.costs.functions}
    return total[MOVED_BY_THE_SEED]["bytecodes"] / backend.window.tasks


@pytest.mark.slow
@pytest.mark.usefixtures("apart")  # each session needs an interpreter of its own
def test_another_hash_seed_is_no_regression_and_hides_none(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds 1 and 2 order the task states differently: +36 to +89 % of that function."""
    same: list[Result] = []
    regressed: dict[str, dict[str, str]] = {}
    for seed, option in (("1", "--schedprof-save=one"), ("2", "--schedprof-compare=one")):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        project.run_test(IN_PROCESS, option)
        for result in load(str(newest(project)), "").results:
            assert result.environment.hash_seed == seed
            name = result.test_id.partition("::")[2]
            if name == "test_same":
                same.append(result)
            for comparison in result.comparisons:
                changes = comparison.of(Outcome.REGRESSED)
                regressed[name] = {change.subject: change.note for change in changes}
    first, second = map(bytecodes_of, same)
    assert first == pytest.approx(second, rel=0.001)
    # Others depend on when messages come, as this scheduler runs in real time.
    assert not any(name.startswith(TRANSITION) for name in regressed["test_same"])
    assert "PYTHONHASHSEED=0" in regressed["test_planted"][MOVED_BY_THE_SEED]


@pytest.mark.slow
def test_secrets_of_a_url_are_in_no_output(project: Project) -> None:
    import fsspec

    place = "memory://name:s3cr3t@store/runs/main.json"
    project.write(tasks(count=5))
    outputs = [
        project.run(*ONCE, f"--schedprof-save={place}"),
        project.run(*ONCE, f"--schedprof-compare={place}"),
        project.run(*ONCE, f"--schedprof-compare={place}?signature=s3cr3t"),  # there is none
    ]
    outputs[1].stdout.fnmatch_lines(
        ["compared with memory://***@store/runs/main.json: * the same in 1 test"]
    )
    outputs[2].stderr.fnmatch_lines(["*there is no 'memory://[*][*][*]@store/*'*"])
    elsewhere = ("--schedprof-dir=else where", "--no-schedprof-strict")
    slower = project.run_test(
        tasks(SLOWER, count=5), *ONCE, *elsewhere, f"--schedprof-compare={place}"
    )
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(
        [
            "  why:    schedprof explain test_it.py::test_tasks --dir 'else where'",
            "  again:  pytest test_it.py::test_tasks --schedprof=* '--schedprof-dir=else where' *",
            "  accept: schedprof accept test_it.py::test_tasks --run 'else where' --reason '...'",
        ]
    )
    assert "--no-schedprof-strict" in slower.stdout.str()
    outputs.append(slower)
    printed = [output.stdout.str() + output.stderr.str() for output in outputs]
    files = [
        path.read_bytes()
        for runs in (".schedprof", "else where")
        for path in (project.path / runs).rglob("*.*")
        if path.is_file()
    ]
    assert not any("s3cr3t" in text for text in printed)
    assert not any(b"s3cr3t" in content for content in files)
    fsspec.filesystem("memory").store.clear()


@pytest.mark.slow
def test_what_was_accepted_passes_and_nothing_beside_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.path)
    project.run_test(tasks(), *COUNTS, "--schedprof-save=main").assert_outcomes(passed=1)
    assert main(["accept", "--reason", "too early"]) == 1
    compared = (*COUNTS, "--schedprof-compare=main")
    tolerant = project.run_test(tasks(SLOWER), *compared, "--schedprof-tolerance=5%")
    tolerant.assert_outcomes(passed=1)
    tolerant.stdout.fnmatch_lines(["compared with main: * accepted, * the same in 1 test"])

    slower = project.run_test(tasks(SLOWER), *compared)
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(
        ["  accept: schedprof accept test_it.py::test_tasks --reason '...'"]
    )
    assert main(["accept", "test_tasks", "--reason", "keys are checked"]) == 0
    accepted = project.run_test(tasks(SLOWER), *compared, "-n", "2")
    accepted.assert_outcomes(passed=1)
    accepted.stdout.fnmatch_lines(
        ["compared with main: * accepted, * the same in 1 test", "  accepted: keys are checked"]
    )
    assert main(["compare", "main", str(newest(project))]) == 0
    assert main(["accept", "--prune"]) == 0
    assert "_transition" in (project.path / "schedprof-accepted.toml").read_text()

    assert "accepted of test_it.py::test_tasks, " in capsys.readouterr().out
    more = project.run_test(tasks(f"{SLOWER}, {SCANNING}"), *compared)
    more.assert_outcomes(failed=1)
    more.stdout.fnmatch_lines(["schedprof: regressed *check_idle_saturated: *1 cause, *"])

    same = project.run_test(tasks(), *compared)
    same.assert_outcomes(passed=1)
    same.stdout.fnmatch_lines(
        ["* accepted figures of schedprof-accepted.toml no longer applied: *"]
    )
    capsys.readouterr()
    assert main(["accept", "--prune"]) == 0
    assert capsys.readouterr().out.endswith("removed, 0 in all\n")
    assert not (project.path / "schedprof-accepted.toml").exists()
