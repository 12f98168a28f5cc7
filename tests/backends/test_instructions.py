"""Tests of instructions in schedulers that valgrind really emulates, and by real counters."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Project

from pytest_schedprof.agent import instructions as agent
from pytest_schedprof.agent import perf_events, recordings
from pytest_schedprof.agent.recordings import OwnProcess
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import main
from pytest_schedprof.clusters.child import launched
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    BackendUnavailableError,
    RecordingError,
)
from pytest_schedprof.model.profile import CostProfile

PATIENCE_S = 300.0


def holds(name: bytes) -> bool:
    """Whether the interpreter names this C function, which a stripped one does not."""
    paths = [Path(sys.executable).resolve()]
    if library := sysconfig.get_config_var("INSTSONAME"):
        paths.append(Path(sysconfig.get_config_var("LIBDIR")) / library)
    return any(name in path.read_bytes() for path in paths if path.exists())


NAMES_C = holds(b"list_sort_impl")
NAMES_PYTHON = sys.version_info >= (3, 12) and NAMES_C
SORTING = "c:list_sort" if NAMES_C else "c:["
"""Name of sorting: with those of C functions stripped, all of the interpreter's C code has one."""

PRECISION = 0.001 if NAMES_C else 0.2


def counting(by: str) -> Backend:
    return BackendRegistry().make("instructions", rate_hz=100, options={"by": by})


@pytest.fixture(scope="module")
def emulated() -> Iterator[LocalProcesses]:
    """A scheduler that valgrind emulates, which takes long to start."""
    if shutil.which("valgrind") is None:
        if "CI" in os.environ:
            pytest.fail("valgrind is not installed")
        pytest.skip("needs valgrind")
    cluster = LocalProcesses(0, timeout_s=PATIENCE_S, launcher=counting("valgrind").launcher)
    yield cluster
    cluster.close()


@pytest.fixture
def line(emulated: LocalProcesses) -> Iterator[Control]:
    with Control(emulated.address, timeout_s=PATIENCE_S) as control:
        yield control


def sort_often(times: int) -> None:
    numbers = [(37 * n) % 1009 for n in range(1000)]
    for _ in range(times):
        sorted(numbers)


def import_something() -> None:
    import sys

    for _ in range(10):
        for name in ("xmlrpc", "xmlrpc.client", "xmlrpc.server"):
            sys.modules.pop(name, None)
        import xmlrpc.server  # noqa: F401


def state(dask_scheduler: Any = None) -> dict[str, Any]:
    import gc
    import os
    from importlib import _bootstrap

    return {
        "collector": gc.isenabled(),
        "frozen": gc.get_freeze_count(),
        "importer": _bootstrap._find_and_load.__name__,  # type: ignore[attr-defined]
        "attributes": sorted(name for name in vars(dask_scheduler) if "schedprof" in name),
        "files": sorted(os.listdir(os.path.dirname(os.environ["SCHEDPROF_CALLGRIND"]))),
    }


def counted(control: Control, work: Any, *arguments: Any) -> CostProfile:
    backend = counting("auto")
    recording = backend.start(control, timeout_s=PATIENCE_S)
    control.call(work, *arguments)
    content = recording.stop(timeout_s=PATIENCE_S).content
    profile = backend.read(content, control.name_places)
    assert isinstance(profile, CostProfile)
    assert profile.mode == "valgrind"
    return profile


def of(profile: CostProfile, name: str) -> float:
    return sum(
        costs["instructions"]
        for function, costs in profile.functions.items()
        if function.startswith(name)
    )


@pytest.mark.slow
def test_known_work_has_its_instructions_in_each_window(line: Control) -> None:
    before = line.call(state)
    counted(line, sort_often, 30)  # the first window also has what is only done once
    thirty, again, sixty = (counted(line, sort_often, times) for times in (30, 30, 60))
    sorting = of(thirty, SORTING)
    assert of(again, SORTING) == (sorting if NAMES_C else pytest.approx(sorting, rel=PRECISION))
    assert sorting > 300_000
    assert of(sixty, SORTING) == pytest.approx(2 * sorting, rel=PRECISION)
    # In real time a window also has what the scheduler does by the clock.
    least = min(window.whole["instructions"] for window in (thirty, again))
    assert sixty.whole["instructions"] - least > sorting / 2
    assert line.call(state) == before
    check_names(thirty)


def check_names(profile: CostProfile) -> None:
    """Python functions are charged for the C code that they call."""
    if not NAMES_PYTHON:
        assert ("Python 3.12" if NAMES_C else "stripped of the names") in profile.hides
        return
    (name,) = [function for function in profile.functions if function.endswith(":sort_often")]
    assert profile.functions[name]["instructions"] > of(profile, "c:list_sort")
    assert not profile.hides


def begin_to_work_beside(dask_scheduler: Any = None) -> None:
    """Start a thread that takes turns with the event loop's, shorter ones than callgrind sees."""
    import sys
    import threading

    ended = dask_scheduler.work_beside = threading.Event()

    def work() -> None:
        while not ended.is_set():
            pass

    threading.Thread(target=work).start()
    sys.setswitchinterval(1e-6)


def end_work_beside(dask_scheduler: Any = None) -> None:
    import sys

    sys.setswitchinterval(0.005)
    dask_scheduler.work_beside.set()


@pytest.mark.slow
def test_no_window_is_lost_to_another_thread(line: Control) -> None:
    before = line.call(state)["files"]
    line.call(begin_to_work_beside)
    try:
        for _ in range(3):
            assert of(counted(line, sort_often, 10), SORTING) > 0
    finally:
        line.call(end_work_beside)
    assert line.call(state)["files"] == before


@pytest.mark.slow
def test_imports_are_left_out(line: Control) -> None:
    line.call(import_something)  # so that it is compiled
    nothing = counted(line, sort_often, 0).whole["instructions"]
    # In real time a window also has what the scheduler does by the clock: the least of three.
    imported = (counted(line, import_something).whole["instructions"] for _ in range(3))
    assert any(instructions < 3 * nothing for instructions in imported)


def test_only_one_recording_at_once_and_an_abandoned_one_leaves_nothing(line: Control) -> None:
    before = line.call(state)
    recording = counting("valgrind").start(line, timeout_s=PATIENCE_S)
    with pytest.raises(RecordingError, match="another instructions recording is under way"):
        counting("auto").start(line, timeout_s=PATIENCE_S)
    recording.abandon(timeout_s=PATIENCE_S)
    assert line.call(state) == before


def test_a_scheduler_that_valgrind_did_not_start_is_refused(control: Control) -> None:
    with pytest.raises(BackendUnavailableError, match="was not started by it") as caught:
        counting("valgrind").start(control, timeout_s=10)
    assert "--schedprof-cluster=virtual" in caught.value.remedies[0]


def test_a_launcher_gives_variables_and_a_command() -> None:
    launcher = ("PLACE={directory}/out", "env", "--file={directory}/a=b", "c=d")
    assert launched(launcher, Path("/there")) == (
        {"PLACE": "/there/out"},
        ["env", "--file=/there/a=b", "c=d"],
    )
    assert launched((), Path("/there")) == ({}, [])


@pytest.mark.slow
def test_without_valgrind_the_error_names_its_package(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(project.path))
    with pytest.raises(BackendNotInstalledError, match="apt-get install valgrind"):
        LocalProcesses(0, timeout_s=200, launcher=counting("valgrind").launcher)
    result = project.run_test(
        """
@pytest.mark.schedprof(backend="instructions", options={"by": "valgrind"})
def test_it(schedprof_scheduler):
    pass
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["schedprof: *by valgrind, which is not installed here; apt-get *"])
    assert main(["doctor", "--backend=instructions", "--option=instructions.by=valgrind"]) == 1
    assert "apt-get install valgrind" in capsys.readouterr().out


@pytest.mark.slow
def test_a_test_of_a_virtual_cluster_is_judged_by_instructions(
    project: Project, emulated: LocalProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    result = project.run_test(
        """
@pytest.mark.schedprof(
    "instructions <= 1000",
    "instructions(c:list_sort*) <= 1000000",
    "instructions(c:no_such_function) <= 1",
    "instructions(distributed.scheduler:*) <= 1000000",
    backend="instructions",
    cluster="virtual",
    workers=2,
)
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    # Of this file, which imports pytest, so that the window does not have to.
    assert client.run_on_scheduler(lambda dask_scheduler: "pytest" in __import__("sys").modules)
    with schedprof_scheduler.measure():
        wait(client.map(inc, range(10), pure=False))
""",
        "--schedprof-timeout=500",
        timeout_s=600,
    )
    result.assert_outcomes(failed=1)
    (measured,) = project.result().backends
    assert measured.mode == "valgrind"  # the limits name functions
    verdicts = {limit.limit: limit.verdict.value for limit in measured.limits}
    assert verdicts == {
        "instructions <= 1000": "fail",
        "instructions(c:list_sort*) <= 1000000": "pass" if NAMES_C else "inconclusive",
        "instructions(c:no_such_function) <= 1": "inconclusive",
        "instructions(distributed.scheduler:*) <= 1000000": (
            "pass" if NAMES_PYTHON else "inconclusive"
        ),
    }
    assert measured.artifacts[0] == "scheduler.instructions.callgrind.out"
    (kept,) = project.run_directory.glob("tests/*/scheduler.instructions.callgrind.out")
    assert b"schedprof-symbol" not in kept.read_bytes()
    assert kept.stat().st_size < 10**7
    (record,) = project.run_directory.glob("tests/*/result.json")
    assert record.stat().st_size < 300_000


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the system call is Linux's")


@needs_linux
def test_a_counter_counts_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every kernel has a counter of nanoseconds, which takes the same way as that of instructions.
    monkeypatch.setattr(perf_events, "HARDWARE", perf_events.SOFTWARE)
    monkeypatch.setattr(perf_events, "INSTRUCTIONS", perf_events.TASK_CLOCK)
    holder, backend = OwnProcess(), counting("counter")
    answer = agent.start("counter", "", dask_scheduler=holder)
    if "problem" in answer:
        pytest.skip(f"this system permits no counter: {answer}")
    assert agent.start("counter", "", dask_scheduler=holder) == {"problem": "busy"}
    (recording,) = holder.__dict__[recordings.RECORDINGS].values()
    until = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < until:
        pass
    asyncio.run(recordings.stop(answer["token"], 1.0, dask_scheduler=holder))
    profile = backend.read(recording.content, lambda places: [])
    assert isinstance(profile, CostProfile)
    assert profile.whole["instructions"] >= 20e6
    assert not profile.doubt
    descriptor = recording._descriptor
    asyncio.run(recordings.discard(answer["token"], dask_scheduler=holder))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@needs_linux
def test_without_valgrind_a_counter_counts_or_it_says_why_not(control: Control) -> None:
    backend = counting("auto")
    try:
        recording = backend.start(control, timeout_s=10)
    except BackendUnavailableError:
        with pytest.raises(BackendUnavailableError, match=r"counter.*; .*valgrind counts without"):
            backend.start(control, timeout_s=10)
        return
    profile = backend.read(recording.stop(timeout_s=10).content, control.name_places)
    assert isinstance(profile, CostProfile)
    assert profile.mode == "counter"
    assert profile.whole["instructions"] > 1000
