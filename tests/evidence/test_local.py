"""Tests of evidence from dask's local schedulers, against profilers that the test runs itself."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import sleep, time
from timeit import default_timer
from typing import Any

import dask.array  # before a session of a project imports it and forgets a part of numpy
import msgspec
import psutil
import pytest
from dask.callbacks import Callback
from dask.delayed import delayed
from dask.diagnostics.profile import CacheProfiler, Profiler, ResourceProfiler
from dask.sizeof import sizeof
from support import ALONE, AUTOLOAD, Project, command_line, wait_for

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence.contract import (
    NO_SCHEDULER,
    NONE_HERE,
    Brought,
    EvidenceRegistry,
    EvidenceUnavailableError,
    Need,
    ObservedTest,
)
from pytest_schedprof.evidence.in_process import HERE, NO_WORKER
from pytest_schedprof.evidence.local import INTERVAL_S, UNSAMPLED, LocalKind, described
from pytest_schedprof.model.evidence import LocalScheduler


def made(number: int) -> bytes:
    sleep(0.25)  # for some samples on a busy machine too
    end = default_timer() + 0.05
    while default_timer() < end:
        pass
    return bytes(1000 + number)


def joined(parts: list[bytes]) -> int:
    return sum(map(len, parts))


def length_of(value: object) -> int:
    return len(str(value))


def work(scheduler: str) -> None:
    parts = [delayed(made)(number) for number in range(6)]
    workers = 1 if scheduler == "processes" else 2  # each is a new process for each graph
    assert delayed(joined)(parts).compute(scheduler=scheduler, num_workers=workers) == 6015


def content_of(brought: Brought) -> LocalScheduler:
    return msgspec.json.decode(brought.files["local.json"], type=LocalScheduler)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["threads", "processes", "sync"])
def test_all_of_it_is_what_dasks_profilers_say(scheduler: str) -> None:
    kind = LocalKind(ObservedTest("test_it"))
    theirs, cache = Profiler(), CacheProfiler(metric=sizeof)
    works = 0
    for number in (1, 2):
        with kind.around(number):
            theirs.register()
            cache.register()
            for _ in range(30):  # the program that samples takes its time to begin
                work(scheduler)
                works += 1
                samples = kind._resources.results
                if number == 1 or (len(samples) > 3 and max(one.cpu for one in samples) > 1):
                    break
            cache.unregister()
            theirs.unregister()
    brought = kind.bring(())
    content = content_of(brought)
    assert len(content.tasks) == 7 * works
    apart = []
    for ours, task in zip(content.tasks, theirs.results, strict=True):
        assert (ours.key, ours.worker) == (str(task.key), str(task.worker_id))
        apart.append((ours.stop - ours.start) - (task.end_time - task.start_time))
    assert median(map(abs, apart)) < 0.05  # between two callbacks a process may have to wait
    assert [(result.key, result.amount) for result in content.cache] == [
        (str(result.key), result.metric) for result in cache.results
    ]
    assert all(result.cached <= result.freed for result in content.cache)
    assert len(content.resources) > 3
    gaps = [after.time - before.time for before, after in pairwise(content.resources)]
    assert median(gaps) > INTERVAL_S / 2  # the next graph may begin soon after a sample
    assert max(sample.cpu_percent for sample in content.resources) > 1
    assert min(sample.memory_mb for sample in content.resources) > 10
    assert brought.files["local.html"].rstrip().endswith(b"</html>")


def test_records_have_the_call_and_the_time_of_day_and_nothing_is_left_running() -> None:
    kind = LocalKind(ObservedTest("test_it"))
    before, active = time(), set(Callback.active)
    with kind.around(1):
        work("threads")
    assert Callback.active == active
    assert not kind._resources._is_running()
    content = content_of(kind.bring(()))
    calls = {task.key: task.task for task in content.tasks}
    assert sorted(calls.values())[0].startswith("joined([")
    assert sorted(calls.values())[1:] == [f"made({number})" for number in range(6)]
    assert {result.key: result.task for result in content.cache} == calls
    times = [
        content.begun,
        *(moment for task in content.tasks for moment in (task.start, task.stop)),
    ]
    times += [sample.time for sample in content.resources]
    times += [result.freed for result in content.cache]
    # Clocks of processes and of the calendar may be adjusted by a little.
    assert before - 1 < min(times) <= max(times) < time() + 1


QR = """
import dask.array as da

@pytest.mark.schedprof(
    backend="cputime", evidence="local", options={"local": {"dt": 0.05, "metric": "count"}}
)
def test_it():
    a = da.random.random(size=(1000, 100), chunks=(100, 100))
    q, r = da.linalg.qr(a)
    q.dot(r).compute(scheduler="threads")
"""


def test_qr_with_the_options_of_a_marker(project: Project) -> None:
    """The example of dask's documentation of these profilers, smaller."""
    assert dask.array
    project.run_test(QR, "--schedprof-option=local.dt=9").assert_outcomes(passed=1)
    (path,) = project.run_directory.glob("tests/*/local.json")
    content = msgspec.json.decode(path.read_bytes(), type=LocalScheduler)
    assert (content.cache_metric, content.interval_s) == ("count", 0.05)
    assert {result.amount for result in content.cache} == {1.0}
    functions = Counter(task.task.partition("(")[0] for task in content.tasks)
    assert functions["_wrapped_qr"] + functions["qr"] == 11  # of each chunk, and of all together
    assert functions["_apply_random"] == 10


@pytest.mark.parametrize("metric", [length_of, "test_local:length_of"])
def test_metric_of_the_user(metric: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    kind = LocalKind(ObservedTest("test_it", options={"local": {"metric": metric}}))
    with kind.around(1):
        work("threads")
    content = content_of(kind.bring(()))
    assert (content.cache_metric, content.cache[-1].amount) == ("length_of", len("6015"))


@pytest.mark.parametrize("metric", [None, 1, ["bytes"]])
def test_a_metric_that_is_neither_a_name_nor_a_function_is_refused(metric: object) -> None:
    with pytest.raises(SettingsError, match="metric must be one of bytes, count, a function"):
        LocalKind.read_options({"metric": metric})


class List:
    """A type with the name of one of dask's, as numba has one."""


def test_arguments_of_any_kind_can_be_described() -> None:
    assert described((joined, List())) == "joined(List)"
    assert described((joined, 10**5000)).startswith("joined(")


@pytest.mark.slow
def test_profilers_of_the_user_stand_for_ours() -> None:
    resources, cache = ResourceProfiler(dt=0.01), CacheProfiler(metric=length_of)
    for _ in range(2):  # results of an earlier test are not reported again
        kind = LocalKind(ObservedTest("test_it", callbacks=[resources, cache]))
        with kind.around(1):
            work("threads")
        content = content_of(kind.bring(()))
        assert len(content.tasks) == len(content.cache) == 7
        assert (content.cache_metric, content.cache[-1].amount) == ("length_of", len("6015"))
    gaps = [after[0] - before[0] for before, after in pairwise(resources.results)]
    assert min(gaps) < INTERVAL_S / 2
    assert not resources._is_running()


def of_a_graph_of_its_own(number: int) -> int:
    return int(delayed(joined)([delayed(made)(number)]).compute(scheduler="sync"))


def test_graphs_within_a_graph_and_after_it_have_samples() -> None:
    kind = LocalKind(ObservedTest("test_it"))
    with kind.around(1):
        for _ in range(2):
            assert delayed(of_a_graph_of_its_own)(1).compute(scheduler="sync") == 1001
        ended = len(kind._resources.results)
        work("sync")
    assert len(kind._resources.results) > ended >= 2
    assert kind._resources._tracker is None


def samplers() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [child for child in children if "usage" in str(command_line(child))]


def test_a_killed_sampler_costs_samples_and_nothing_else() -> None:
    kind = LocalKind(ObservedTest("test_it"))
    with kind.around(1):
        wait_for(lambda: bool(samplers()), "the sampler to have begun")
        (sampler,) = samplers()
        sampler.kill()
        work("sync")
    brought = kind.bring(())
    content = content_of(brought)
    assert (len(content.tasks), len(content.resources)) == (7, 0)
    assert brought.notes == (UNSAMPLED,)
    assert not sampler.is_running()


def test_where_no_local_scheduler_ran() -> None:
    kind = LocalKind(ObservedTest("test_it"))
    with kind.around(1):
        pass
    with pytest.raises(EvidenceUnavailableError, match="none of dask's local schedulers ran"):
        kind.bring(())


CONFTEST = """
from dask.callbacks import Callback

class Noting(Callback):
    keys = []

    def _posttask(self, key, result, dsk, state, worker):
        self.keys.append(key)

def pytest_schedprof_callbacks():
    return [Noting()]

def pytest_sessionfinish():
    print(f"noted {len(Noting.keys)} tasks")
"""

BODY = """
import dask

@pytest.mark.schedprof(evidence="all")
def test_it():
    dask.delayed(inc)(dask.delayed(inc)(1)).compute(scheduler="threads", optimize_graph=False)
"""


def test_a_hook_that_fails_leaves_nothing_patched(project: Project) -> None:
    (project.path / "conftest.py").write_text("def pytest_schedprof_callbacks(): 1 / 0")
    result = project.run_test(
        """
import dask
from dask.callbacks import Callback
from distributed import Scheduler

closing = Scheduler.close

@pytest.mark.schedprof(evidence="local")
def test_it():
    dask.delayed(inc)(1).compute(scheduler="sync")

def test_next():
    assert Scheduler.close is closing
    assert not Callback.active
"""
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["conftest.py:1: ZeroDivisionError"])


def on_terminal(project: Project, *arguments: str) -> str:
    """Return what a session writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *ALONE, *arguments],
        cwd=project.path,
        env={**os.environ, AUTOLOAD: "1"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        written = b"".join(iter(lambda: read(ours), b""))
    os.close(ours)
    return written.decode()


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 2**16)
    except OSError:  # all writers have closed it
        return b""


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-v", "-s"], ["-v"], ["-s"]], ids=" ".join)
def test_dasks_progress_bar_is_on_the_terminal(project: Project, options: list[str]) -> None:
    project.write(BODY.replace("def test_it():", "def test_it(capsys):"))
    text = on_terminal(project, "--schedprof=cputime", *options)
    assert ("100% Completed" in text) == (len(options) == 2)
    assert "1 passed" in text


def test_users_callbacks_are_called(project: Project) -> None:
    (project.path / "conftest.py").write_text(CONFTEST)
    result = project.run_test(BODY, "--schedprof=cputime", "-v", "-s", "--color=yes")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*noted 2 tasks*"])
    result.stdout.no_fnmatch_line("*Completed*")  # no progress bar without a terminal
    evidence: dict[str, Any] = {piece.kind: piece for piece in project.result().evidence}
    assert evidence["local"].artifacts == ("local.json", "local.html")
    for kind in EvidenceRegistry().kinds(["all"]):
        reasons = {"tasks": "no worker finished a task of the test", "transfers": NO_WORKER}
        if kind in HERE:
            assert evidence[kind.name].missing == reasons.get(kind.name, NONE_HERE)
        else:
            needed = NO_SCHEDULER if Need.SCHEDULER in kind.needs else ""
            assert evidence[kind.name].missing == needed
    result.stdout.fnmatch_lines([f"*note: no report, workers: {NO_SCHEDULER}*"])
