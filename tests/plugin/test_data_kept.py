"""Tests of what is kept of a session, and told of it, also if something goes wrong on the way."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import Project

from pytest_schedprof.cli.main import main
from pytest_schedprof.store.runs import find_run


@pytest.mark.slow
def test_a_killed_session_leaves_the_tests_that_ended(
    project: Project, apart: None, capsys: pytest.CaptureFixture[str]
) -> None:
    project.run_test("""
RUNS = iter(range(9))

@pytest.mark.schedprof(backend="cputime")
def test_done(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)

@pytest.mark.schedprof(backend="cputime", rounds=3)
def test_killed(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)
    if next(RUNS) == 1:
        os._exit(9)

def test_never(schedprof_scheduler):
    pass
""")
    capsys.readouterr()
    kept = find_run(project.path / ".schedprof")
    assert kept.record.exit_status is None
    assert [(test.test_id, test.outcome) for test in kept.record.tests] == [
        ("test_it.py::test_done", "passed"),
        ("test_it.py::test_killed", "unfinished"),
    ]
    killed = kept.test("test_killed")
    assert killed.result.troubles == (
        "schedprof: the test did not end: its session was killed, or is still running",
    )
    (round_that_ended,) = killed.path.glob("*.speedscope.json")
    assert round_that_ended.stat().st_size > 100
    assert main(["show", "test_done", "--run", str(kept.path)]) == 0
    assert "test_done" in capsys.readouterr().out
    assert main(["open", "--write", "--run", str(project.path / ".schedprof")]) == 0
    assert "has not ended" in (kept.path / "index.html").read_text(encoding="utf-8")


INTERRUPTED = """
@pytest.mark.schedprof(backend="interrupting")
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
"""


@pytest.mark.slow
def test_a_test_that_is_interrupted_while_it_is_judged_is_kept(
    project: Project, apart: None
) -> None:
    """Also in a worker of pytest-xdist, which hands over what it has."""
    (project.path / "conftest.py").write_text("""
from pytest_schedprof.backends.cputime import CpuTimeBackend

class Interrupting(CpuTimeBackend):
    name = "interrupting"
    is_first = True

    def read(self, *arguments):
        if Interrupting.is_first:
            Interrupting.is_first = False
            raise KeyboardInterrupt
        return super().read(*arguments)

def pytest_schedprof_backends():
    return {"interrupting": Interrupting}
""")
    project.plugins = ("xdist",)
    result = project.run_test(INTERRUPTED, "-n1")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    (entry,) = project.run_record().tests
    assert entry.outcome == "interrupted"
    assert project.run_record().exit_status == pytest.ExitCode.INTERRUPTED
    (backend,) = project.result().backends
    assert backend.artifacts
    assert backend.shares
    result.stdout.fnmatch_lines(["artifacts of 1 profiled test: *"])


def test_a_record_is_concluded_when_the_test_is_and_not_with_its_first_subtest(
    project: Project,
) -> None:
    result = project.run_test(
        """
import gc, unittest, weakref

@pytest.mark.schedprof(backend="cputime")
def test_fixture(schedprof_scheduler, subtests):
    for number in range(3):
        with subtests.test(number=number):
            schedprof_scheduler.client.submit(inc, number).result()
            assert number != 1

@pytest.mark.schedprof(backend="cputime")
def test_good(schedprof_scheduler, subtests):
    for number in range(2):
        with subtests.test(number=number):
            schedprof_scheduler.client.submit(inc, number).result()

@pytest.mark.schedprof(backend="cputime")
class TestUnit(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def taken(self, schedprof_scheduler):
        self.client = schedprof_scheduler.client

    def test_unit(self):
        for number in range(3):
            with self.subTest(number=number):
                self.client.submit(inc, number).result()
                self.assertNotEqual(number, 1)

KNOWN = []

@pytest.mark.schedprof(backend="cputime")
def test_known(schedprof_scheduler):
    KNOWN.append(weakref.ref(schedprof_scheduler))

def test_nothing_is_kept_of_its_scheduler_in_memory():
    gc.collect()
    assert KNOWN[0]() is None
"""
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "test_nothing_is_kept" not in "".join(result.outlines)  # as it passed
    outcomes = {name: record.outcome for name, record in project.results().items()}
    assert outcomes == {
        "test_fixture": "failed",
        "test_known": "passed",
        "test_good": "passed",
        "TestUnit::test_unit": "failed",
    }
    tasks = {name: result.backends[0].window.tasks for name, result in project.results().items()}
    assert tasks == {"test_fixture": 3, "test_known": 0, "test_good": 2, "TestUnit::test_unit": 3}
    assert sorted(test.outcome for test in project.run_record().tests) == sorted(outcomes.values())


@pytest.mark.slow
def test_a_gate_that_checks_nothing_fails(project: Project) -> None:
    project.write("def test_plain():\n    pass\n", "test_plain.py")
    project.write(
        """
@pytest.mark.schedprof(backend="cputime")
def test_skipped(schedprof_scheduler):
    pytest.skip("not today")

@pytest.mark.schedprof(backend="cputime")
def test_good(schedprof_scheduler):
    schedprof_scheduler.client.submit(inc, 1).result()
"""
    )
    saved = project.run("test_plain.py", "--schedprof-save=main")
    saved.assert_outcomes(passed=1)
    assert saved.ret == pytest.ExitCode.TESTS_FAILED
    saved.stdout.fnmatch_lines(["schedprof: baseline 'main' was not saved: no profiled test ran"])
    assert "please report" not in saved.stdout.str()
    assert not (project.path / ".schedprof").exists()

    skipped = project.run("-k", "skipped", "--schedprof-save=main")
    skipped.assert_outcomes(skipped=1, deselected=2)
    assert skipped.ret == pytest.ExitCode.TESTS_FAILED
    skipped.stdout.fnmatch_lines(
        ["schedprof: baseline 'main' was not saved: none of 1 test that ran profiled passed"]
    )

    assert project.run("--schedprof-save=main").ret == pytest.ExitCode.OK
    compared = project.run("test_plain.py", "--schedprof-compare=main")
    assert compared.ret == pytest.ExitCode.TESTS_FAILED
    compared.stdout.fnmatch_lines(["schedprof: nothing was compared with 'main': no profiled *"])
    assert project.run("--collect-only", "--schedprof-compare=main").ret == pytest.ExitCode.OK


def test_a_step_that_fails_at_the_end_prevents_no_other_one(project: Project) -> None:
    result = project.run_test(
        """
from pathlib import Path

@pytest.mark.schedprof(backend="cputime")
def test_it(schedprof_scheduler):
    schedprof_scheduler.client.submit(inc, 1).result()
    (run,) = Path(".schedprof").glob("2*")
    (run / "summary.md").mkdir(exist_ok=True)
""",
        "--schedprof-save=./base.json",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["schedprof: cannot write '*summary.md': Is a directory; *"])
    result.stdout.fnmatch_lines(["baseline './base.json': 1 test saved in *"])
    assert (project.run_directory / "index.html").exists()
    assert project.run_record().exit_status == 0


def test_an_interrupt_while_the_pages_are_made_is_no_success(project: Project) -> None:
    (project.path / "conftest.py").write_text(
        """
import pytest_schedprof.plugin.collecting as module

def interrupted(*arguments, **keywords):
    raise KeyboardInterrupt

def pytest_sessionstart():
    module.write_pages, module.before = interrupted, module.write_pages

def pytest_unconfigure():
    module.write_pages = module.before
"""
    )
    result = project.run_test(
        """
@pytest.mark.schedprof(backend="cputime")
def test_it(schedprof_scheduler):
    schedprof_scheduler.client.submit(inc, 1).result()
""",
        "--schedprof-save=./base.json",
    )
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "baseline './base.json': 1 test saved in *",
            "interrupted: `schedprof open --write` makes the pages *",
        ]
    )
    assert project.run_record().exit_status == pytest.ExitCode.INTERRUPTED


KEEPING = """
@pytest.mark.schedprof("calls(@transitions) <= 1000")
def test_good(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

@pytest.mark.schedprof("calls(@transitions) <= 0.001")
def test_broken(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

@pytest.mark.schedprof("calls(@transitions) <= 1000", keep="all")
def test_kept(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

SESSION = ("--schedprof=counts,viztracer", "--schedprof-cluster=simulated", "--schedprof-workers=2")


@pytest.mark.slow
def test_recordings_of_tests_that_are_as_they_were_are_bounded(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    result = project.run_test(KEEPING, *SESSION, "--schedprof-keep=60kB", "--junitxml=junit.xml")
    result.assert_outcomes(passed=2, failed=1)
    files = {
        name: {backend.backend: bool(backend.artifacts) for backend in result.backends}
        for name, result in project.results().items()
    }
    assert files["test_broken"] == files["test_kept"] == {"counts": True, "viztracer": True}
    assert files["test_good"] == {"counts": True, "viztracer": False}
    (trace,) = [backend for backend in project.results()["test_good"].backends if backend.left_out]
    assert trace.backend == "viztracer"
    assert trace.left_out > 60_000
    assert len(list(project.path.rglob("*.viztracer.json.gz"))) == 2
    named: list[Path] = []
    for test in ElementTree.parse(project.path / "junit.xml").iter("properties"):
        pairs = [(entry.get("name", ""), entry.get("value", "")) for entry in test]
        (place,) = [Path(value) for name, value in pairs if name == "schedprof_artifacts"]
        artifacts = [place / value for name, value in pairs if name.endswith("_artifact")]
        assert all(artifact.is_file() for artifact in artifacts)
        named += artifacts
    assert named
    capsys.readouterr()

    runs = str(project.path / ".schedprof")
    assert main(["show", "test_good", "--run", runs]) == 0
    assert "viztracer: recordings of " in capsys.readouterr().out
    assert main(["open", "--write", "--run", runs]) == 0


PATCHES = {
    "open": 'monkeypatch.setattr("builtins.open", broken)',
    "json": 'monkeypatch.setattr("json.dumps", broken)',
    "pathlib": """for name in ("exists", "mkdir", "is_dir", "with_name", "__truediv__"):
        monkeypatch.setattr(f"pathlib.Path.{name}", broken)""",
}


def test_what_a_test_left_patched_fails_that_test_alone(project: Project) -> None:
    """What it breaks in the thread that watches its cluster fails none."""
    bodies = [
        f"""
@pytest.mark.schedprof(backend="cputime")
def test_{name}(schedprof_scheduler, monkeypatch):
    {patch}
"""
        for name, patch in PATCHES.items()
    ]
    result = project.run_test(
        f"""
import threading

@pytest.mark.schedprof(backend="cputime")
def test_watched(schedprof_scheduler, monkeypatch):
    seen = threading.Event()

    def broken_there(*arguments, **keywords):
        if threading.current_thread().name == "schedprof-watch":
            seen.set()
            raise RuntimeError("of the watch")
        return whole(*arguments, **keywords)

    whole = open
    monkeypatch.setattr("builtins.open", broken_there)
    assert seen.wait(60)
    seen.clear()
    assert seen.wait(60), "it goes on"

def broken(*arguments, **keywords):
    raise RuntimeError("BROKEN")
{"".join(bodies)}
@pytest.mark.schedprof(backend="cputime")
def test_last(schedprof_scheduler):
    pass
"""
    )
    tests = project.run_record().tests
    outcomes = {test.test_id.partition("::")[2]: test.outcome for test in tests}
    assert outcomes["test_watched"] == outcomes["test_last"] == "passed"
    assert result.parseoutcomes().get("errors", 0) == 0
    assert result.parseoutcomes()["failed"] >= 1
    result.stdout.fnmatch_lines(["*unexpected RuntimeError: BROKEN*"])


def test_of_a_test_that_leaves_its_directory_paths_are_from_where_the_session_began(
    project: Project,
) -> None:
    """Also if that directory is gone by then."""
    result = project.run_test(
        """
import dask

@pytest.mark.schedprof("client_bytecodes <= 1", backend="counts")
@pytest.mark.parametrize("is_removed", [False, True])
def test_it(is_removed, tmp_path):
    # Not by monkeypatch, which would come back before the test is judged.
    os.chdir(tmp_path)
    if is_removed:
        tmp_path.rmdir()
    dask.delayed(inc)(1)
"""
    )
    result.assert_outcomes(failed=2)
    broken = "schedprof: limit broken: client_bytecodes <= 1: *; see .schedprof/*/index.html"
    result.stdout.fnmatch_lines([broken, broken])
    assert len(project.results()) == 2


@pytest.mark.slow
def test_a_session_removes_old_runs(project: Project) -> None:
    project.write("@pytest.mark.schedprof\ndef test_it(schedprof_scheduler):\n    pass")
    on = ("--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=1")
    begun = []
    for more in ([], [], ["--schedprof-runs=1"]):
        project.run(*on, *more).assert_outcomes(passed=1)
        begun.append(max((project.path / ".schedprof").glob("2*")))
    assert sorted((project.path / ".schedprof").glob("2*")) == begun[1:]
    assert "a positive whole number, got '0'" in project.refusal("--schedprof-runs=0")
