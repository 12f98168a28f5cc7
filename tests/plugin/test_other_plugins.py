"""Profiled tests beside plugins of other people, and items that are not plain functions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import Project

from pytest_schedprof.plugin.running import id_of

pytestmark = pytest.mark.usefixtures("apart")

GEN_CLUSTER = """
from distributed.utils_test import gen_cluster

@pytest.mark.schedprof("cpu <= 1s", backend="cputime")
@gen_cluster(client=True, **PATIENT)
async def test_it(c, s, a, b):
    await wait(c.map(inc, range(20)))
"""

COVERED = """
from distributed.utils_test import gen_cluster

def marked(backend):
    return pytest.param(backend, marks=pytest.mark.schedprof(backend=backend), id=backend)

@pytest.mark.parametrize("backend", [marked(name) for name in NAMES])
@gen_cluster(client=True, **PATIENT)
async def test_it(c, s, a, b, backend):
    await wait(c.map(inc, range(5)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("core", ["ctrace", "sysmon"])
def test_coverage(project: Project, monkeypatch: pytest.MonkeyPatch, core: str) -> None:
    """Before Python 3.12 coverage has the hook that counts needs, and no other core."""
    monkeypatch.setenv("COVERAGE_CORE", core)
    if is_older := sys.version_info < (3, 12):
        if core == "sysmon":
            pytest.skip("Python 3.11 has no sys.monitoring")
    names = ["counts", "cputime", "cprofile", "viztracer"]
    body = COVERED.replace("NAMES", str(names))
    result = project.run_test(body, "-p", "pytest_cov", "--cov=.")
    result.assert_outcomes(passed=4 - is_older, failed=is_older)
    result.stdout.fnmatch_lines(["TOTAL * ??%"])
    if is_older:
        result.stdout.fnmatch_lines(
            [
                "schedprof: counts cannot work beside coverage, which has the interpreter's hook "
                "in the test's own process: run these tests without it (pytest --no-cov, or no "
                "`coverage run`), or on Python 3.12 or newer"
            ]
        )


LATE = """
attempts = []

@pytest.fixture
def late():
    yield
    attempts.append(1)
    assert len(attempts) > 1

@pytest.mark.schedprof("bytecodes <= baseline", backend="counts", cluster="simulated", workers=1)
def test_it(schedprof_scheduler, late):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""


@pytest.mark.slow
def test_only_the_last_attempt_of_rerunfailures_counts(project: Project) -> None:
    """The first one failed in its body, or in its teardown."""
    body = GEN_CLUSTER + "    attempts.append(1)\n    assert len(attempts) > 1\n"
    project.write(f"attempts = []\n{body}", "test_body.py")
    project.write(LATE, "test_teardown.py")
    reruns = ("-p", "rerunfailures", "--reruns=1")
    result = project.run(*reruns, "--schedprof-save=main", "--junitxml=junit.xml")
    assert result.parseoutcomes() == {"passed": 3, "rerun": 2}
    result.stdout.fnmatch_lines(
        [
            "limits: 1 passed, 1 skipped *",
            "artifacts of 2 profiled tests: *",
            "baseline 'main': 2 tests saved *",
        ]
    )
    assert [test.outcome for test in project.run_record().tests] == ["passed", "passed"]


CRASHING = """
from pathlib import Path

@pytest.mark.schedprof(backend="counts", cluster="simulated", workers=1)
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
    if not Path("crashed").exists():
        Path("crashed").touch()
        os._exit(1)
"""


@pytest.mark.slow
def test_an_attempt_whose_worker_crashed_does_not_count_and_leaves_no_files(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    project.plugins = ("xdist",)
    result = project.run_test(CRASHING, "-n1", "-p", "rerunfailures", "--reruns=1")
    assert result.parseoutcomes() == {"passed": 1, "rerun": 1}
    assert [test.outcome for test in project.run_record().tests] == ["passed"]
    result.stdout.no_fnmatch_line("*did not end*")
    assert not list(temporary.glob("schedprof-cluster-*"))


class Grouped(pytest.Item):
    """A test as pytest-xdist has it by `--dist=loadgroup`, which names its group in its ID."""

    def runtest(self) -> None:
        raise AssertionError


def test_a_group_of_xdist_is_no_part_of_a_tests_id(pytester: pytest.Pytester) -> None:
    module, name = pytester.getmodulecol(""), "test_it[a@b]"
    plain = f"{module.nodeid}::{name}"
    for nodeid in (plain, f"{plain}@group"):
        item = Grouped.from_parent(module, name=name, nodeid=nodeid)
        assert item.nodeid == nodeid
        assert id_of(item) == plain


@pytest.mark.slow
def test_repeat_and_randomly(project: Project) -> None:
    """Neither mixes up the files of repetitions, nor those of runs with one seed."""
    plugins = ["-p", "repeat", "--count=2", "-p", "randomly", "--randomly-seed=7"]
    project.run_test(GEN_CLUSTER, *plugins).assert_outcomes(passed=2)
    assert set(project.results()) == {"test_it[1-2]", "test_it[2-2]"}
    project.run(*plugins).assert_outcomes(passed=2)
    assert len([path for path in (project.path / ".schedprof").iterdir() if path.is_dir()]) == 2


def test_forked(project: Project) -> None:
    fixture = """
def test_unmarked():
    pass

@pytest.mark.schedprof("cpu <= 1s", backend="cputime", workers=1)
def test_fixture(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20)))
"""
    forked = ("-p", "pytest_forked", "--forked")
    project.write("def test_unmarked():\n    pass\n")
    if project.pytester.runpytest_subprocess("-p", "no:schedprof", *forked).ret:
        pytest.skip("pytest-forked does not work with this pytest or Python, even alone")
    result = project.run_test(GEN_CLUSTER + fixture, *forked)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["limits: 2 passed", "artifacts of 2 profiled tests: *"])
    assert [test.outcome for test in project.run_record().tests] == ["passed", "passed"]


TIMED_OUT = """
import signal
from distributed.utils_test import gen_cluster

@pytest.mark.schedprof("cpu <= 1s", backend=["cputime", "pyspy"])
@pytest.mark.parametrize((), [
    pytest.param(marks=pytest.mark.timeout(300, method=method), id=method)
    for method in ("signal", "thread")
])
@gen_cluster(client=True, **PATIENT)
async def test_in_time(c, s, a, b):
    await wait(c.map(inc, range(20)))

@pytest.mark.schedprof("cpu <= 1s", backend=["cputime", "pyspy"])
@pytest.mark.timeout(300, method="signal", func_only=True)
@gen_cluster(client=True, **PATIENT)
async def test_too_long(c, s, a, b):
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # the time that was given is over
    while True:
        time.sleep(0.1)  # one long sleep would not end if the signal comes just before it
"""


@pytest.mark.slow
def test_timeouts(project: Project) -> None:
    project.plugins = ("timeout",)
    result = project.run_test(TIMED_OUT, "-v", "-o", "faulthandler_timeout=400")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*Timeout (>300.0s) from pytest-timeout*"])
    results = project.results()
    assert results["test_in_time[signal]"].backends
    assert results["test_in_time[thread]"].backends
    assert results["test_too_long"].outcome == "failed"


ITEMS = '''
import dask, unittest

pytestmark = pytest.mark.schedprof(backend="cputime")

def work():
    """Sum numbers.

    >>> 1 + 2
    3
    """
    assert dask.delayed(sum)([1, 2]).compute(scheduler="sync") == 3

@pytest.fixture(scope="class")
def of_class():
    yield work()

@pytest.fixture(scope="package")
def of_package():
    yield work()

class TestMethods:
    @pytest.mark.schedprof(rounds=2)
    def test_fixtures(self, of_class, of_package):
        work()

class TestCase(unittest.TestCase):
    @pytest.mark.schedprof
    def test_method(self):
        work()

    @pytest.mark.schedprof
    @unittest.expectedFailure
    def test_expected(self):
        work()
        raise AssertionError

    @unittest.skip("no")
    def test_skipped(self):
        work()

class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_coroutine(self):
        work()
'''


@pytest.mark.slow
def test_items_of_every_kind(project: Project) -> None:
    """The doctest ran no scheduler; its marker is the module's, so that is only told."""
    result = project.run_test(ITEMS, "--doctest-modules")
    result.assert_outcomes(passed=4, xfailed=1, skipped=1)
    result.stdout.fnmatch_lines(["not profiled: 1 test ran no scheduler*"])
    results = project.results()
    assert {name: len(result.backends[0].window.segments) for name, result in results.items()} == {
        "TestMethods::test_fixtures": 2,
        "TestCase::test_method": 1,
        "TestCase::test_expected": 1,
        "TestAsync::test_coroutine": 1,
    }
    assert all(result.backends[0].window.tasks >= 1 for result in results.values())


ELSEWHERE = """
import sys

def pytest_collection_modifyitems():
    sys.platform = "win32"

def pytest_sessionfinish():
    sys.platform = "linux"
"""


def test_elsewhere_tests_are_skipped_with_a_reason(project: Project) -> None:
    project.write(ELSEWHERE, "conftest.py")
    project.write(
        "import pytest\n"
        "def test_fixture(schedprof_scheduler): pass\n"
        "@pytest.mark.schedprof\ndef test_marked(): pass\n"
        "def test_other(): pass\n"
    )
    result = project.run("-rs")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(
        ["SKIPPED [[]2[]] *: schedprof: schedulers are profiled on Linux *"]
    )
