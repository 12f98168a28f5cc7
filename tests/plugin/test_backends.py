"""Tests of several backends, and of how a run's own choice affects a test's limits and options."""

from __future__ import annotations

import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import Finished, Project

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.measuring.plan import choose_backends
from pytest_schedprof.measuring.settings import read_call

BODY = """
@pytest.mark.schedprof("share(@comm) <= 99%", options={"native": False}, backend="pyspy")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(50), pure=False))
    print("the body ran")
"""


@pytest.mark.slow
def test_those_that_disturb_have_a_run_of_the_body_for_themselves(project: Project) -> None:
    result = project.run_test(BODY, "--schedprof=counts,cputime,pyspy,cprofile", "-rP")
    result.assert_outcomes(passed=1)
    assert result.stdout.str().count("the body ran") == 3
    backends = {backend.backend: backend for backend in project.result().backends}
    assert set(backends) == {"counts", "cputime", "pyspy", "cprofile"}
    assert {backend.window.tasks for backend in backends.values()} == {50}
    assert backends["pyspy"].window == backends["cputime"].window
    assert backends["counts"].costs is not None
    assert backends["counts"].shares is None


@pytest.mark.slow
def test_the_runs_choice_leaves_limits_that_it_cannot_judge(project: Project) -> None:
    result = project.run_test(BODY, "--schedprof=counts", "--schedprof-strict")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["limits: 1 skipped (needs a backend or baseline that was not chosen)"]
    )
    assert project.result().unjudged == ("share(@comm) <= 99%",)


@pytest.mark.parametrize(
    ("limits", "in_main_thread", "backends"),
    [
        ([], False, ["counts"]),
        ([], True, ["cputime"]),
        (["share(@comm) <= 30%"], False, ["pyspy"]),
        (["share(@comm) <= 30%"], True, ["cputime"]),
        (["calls(distributed.scheduler:*) <= 9"], False, ["counts"]),
        (["cpu <= 1ms", "calls(distributed.scheduler:*) <= 9"], True, ["cputime", "counts"]),
        (
            ["makespan <= 9s", "memory(process) <= 1GB", "bytecodes <= 1"],
            False,
            ["decisions", "counts"],
        ),
    ],
)
def test_without_a_name_they_are_what_the_limits_need(
    limits: Sequence[str], in_main_thread: bool, backends: Sequence[str]
) -> None:
    settings = read_call("a test", limits, {})
    chosen = choose_backends(settings, BackendRegistry(), in_main_thread=in_main_thread)
    assert list(chosen.backend) == backends


def test_what_is_compared_is_counted() -> None:
    settings = read_call("a test", [], {})._replace(compare="main")
    chosen = choose_backends(settings, BackendRegistry(), in_main_thread=True)
    assert chosen.backend == ("counts",)


ALONE = """
from distributed.utils_test import gen_cluster

def test_fixture(schedprof_scheduler):
    schedprof_scheduler.client.submit(inc, 1).result()

@pytest.mark.schedprof
@gen_cluster(client=True, **PATIENT)
async def test_in_process(c, s, a, b):
    await c.submit(inc, 1)

@pytest.mark.schedprof("calls(distributed.scheduler:*) <= 1000", backend="counts,cputime")
@gen_cluster(client=True, **PATIENT)
async def test_named(c, s, a, b):
    await c.submit(inc, 1)
"""


def test_the_option_alone_takes_no_path_for_a_name(project: Project) -> None:
    """It profiles what takes the fixture, and leaves backends that a marker names."""
    (project.path / "below").mkdir()
    (project.path / "below" / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--own')"
    )
    project.write(ALONE, "below/test_it.py")
    result = project.run("--schedprof", "below", "--own=1")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["schedprof: backends chosen for each test; cluster local, *"])
    results = project.results()
    used = {
        name: [backend.backend for backend in result.backends] for name, result in results.items()
    }
    assert used == {
        "test_fixture": ["counts"],
        "test_in_process": ["cputime"],
        "test_named": ["counts", "cputime"],
    }


REFUSED = """
import sys
sys.path.append({tests!r})
from hardening import filter_tracing
filter_tracing()
"""


def test_a_share_is_judged_where_nothing_may_trace(project: Project) -> None:
    project.is_apart = True  # the kernel refuses it to this session's process for good
    project.write(REFUSED.format(tests=str(Path(__file__).parents[1])), "conftest.py")
    project.write("""
@pytest.mark.schedprof("share(@comm) <= 99%")
def test_it(schedprof_scheduler):
    schedprof_scheduler.client.submit(inc, 1).result()
""")
    result = project.run("--schedprof")
    result.assert_outcomes(passed=1)
    (backend,) = project.result().backends
    assert backend.backend == "cputime"
    result.stdout.fnmatch_lines(["schedprof: cputime in place of pyspy: a seccomp filter there *"])


LEFT_OUT = """
def test_counts(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(10), pure=False))

@pytest.mark.schedprof("share(@comm) <= 100%", "seconds(@comm) <= 99s")
def test_limits(schedprof_scheduler):
    burn(schedprof_scheduler)

@pytest.mark.schedprof(backend="pyspy")
def test_pyspy(schedprof_scheduler): pass

@pytest.mark.schedprof(backend="viztracer")
def test_viztracer(schedprof_scheduler): pass

@pytest.mark.schedprof(backend="memray")
def test_memray(schedprof_scheduler): pass
"""


@pytest.fixture
def bare_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with all that is installed here but profilers, as a packager may make it."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(("py_spy", "viztracer", "memray")):
            (site / package.name).symlink_to(package)
    python = tmp_path / "env" / "bin" / "python"
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return python


@pytest.mark.slow
def test_all_else_works_where_profilers_are_left_out(tmp_path: Path, bare_python: Path) -> None:
    session = Finished(tmp_path, {"test_it.py": LEFT_OUT}, "--schedprof")
    failed = dict.fromkeys(("test_pyspy", "test_viztracer", "test_memray"), "failed")
    assert session.outcomes == {"test_counts": "passed", "test_limits": "passed", **failed}
    said = "schedprof: cputime in place of pyspy: it is not installed; pip install py-spy"
    assert session.lines.count(said) == 1
    (elsewhere := tmp_path / "elsewhere").mkdir()
    there = ("--schedprof", "--schedprof-cluster=tcp://127.0.0.1:1", "--collect-only")
    assert said not in Finished(elsewhere, {"test_it.py": LEFT_OUT}, *there).lines
    backends = {
        name: [backend.backend for backend in r.backends] for name, r in session.results().items()
    }
    assert backends["test_counts"] == ["counts"]
    assert backends["test_limits"] == ["cputime", "cprofile"]
    for package in ("py-spy", "viztracer", "memray"):
        command = f"{bare_python} -m pip install {package}"
        line = next(line for line in session.lines if line.endswith(command))
        assert f"schedprof: {package} is not installed" in line
