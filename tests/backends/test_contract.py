"""Tests of the contract of every backend, on a real scheduler; BACKENDS lists those under test."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import fmean
from typing import Any

import psutil
import pytest
from _pytest.mark.structures import ParameterSet
from support import settle, wait_for

from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import BackendNotInstalledError, RecordingError
from pytest_schedprof.judge.shares import shares_of
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.profile import CostProfile, Profile, SampleProfile

BACKENDS = ["counts", "cprofile", "cputime", "memray", "pyspy", "tachyon", "viztracer"]

TELLING_NO_FUNCTION = ["stalls"]
"""Backends that tell nothing of functions that the scheduler is made to call."""

ELSEWHERE = ["decisions", "instructions"]
"""Backends with files of tests of their own: they do not work on any cluster."""

WORK = """
import time

def greater_twin(n):
    for number in range(9 * n):
        number * number
    return bytearray(90_000_000)

def lesser_twin(n):
    for number in range(n):
        number * number
    return bytearray(10_000_000)

def idle_twin():
    time.sleep(0.5)

def work(n):
    # Nine tenths in one twin, a tenth in its lesser; another twin only waits. Both hold what
    # they allocated to the end. Returns the seconds of both by the clock, and all CPU time.
    before, began = time.process_time(), time.perf_counter()
    greater = greater_twin(n)
    between = time.perf_counter()
    lesser = lesser_twin(n)
    ended = time.perf_counter()
    idle_twin()
    return between - began, ended - between, time.process_time() - before
"""

Seconds = tuple[float, float, float]

SAMPLERS = ("cputime", "pyspy", "tachyon")
STEPS = {"counts": 20_000, "memray": 50_000, **dict.fromkeys(SAMPLERS, 1_500_000)}
"""Steps of the lesser twin: few for tools that see each step, many for samplers."""

SINCE = {"tachyon": (3, 15)}
"""Versions of Python with which backends came."""

BY_THE_CLOCK = ("pyspy", "tachyon", "cprofile", "viztracer")
"""Backends that charge a function also for time in which other processes had its processor."""


def marked(name: str) -> ParameterSet:
    """Leave a backend out where the interpreter is older than it."""
    since = SINCE.get(name, (3, 11))
    is_later = pytest.mark.skipif(sys.version_info < since, reason=f"{name} came with {since}")
    return pytest.param(name, marks=is_later)


@pytest.fixture(params=map(marked, BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    patterns = ["schedprof_work:*"]
    return BackendRegistry().make(request.param, rate_hz=200, options={}, patterns=patterns)


@pytest.fixture
def work(control: Control, backend: Backend) -> Callable[..., Seconds]:
    """A function that makes the scheduler do known work and returns the seconds of it."""
    steps = STEPS.get(backend.name, 500_000)
    return lambda part=1: control.call(do_work, WORK, steps // part)


def do_work(source: str, steps: int, dask_scheduler: Any = None) -> Seconds:
    """Do the work in a module, as the scheduler's code is in modules."""
    import sys
    import types

    if "schedprof_work" not in sys.modules:
        module = sys.modules["schedprof_work"] = types.ModuleType("schedprof_work")
        exec(source, module.__dict__)
    seconds: Seconds = sys.modules["schedprof_work"].work(steps)
    return seconds


def cpu_seconds(dask_scheduler: Any = None) -> float:
    import time

    return time.process_time()


def remains(pid: int) -> dict[str, Any]:
    """State of the scheduler's process that a recording could leave changed."""
    process = psutil.Process(pid)
    return {
        "children": {child.pid for child in process.children(recursive=True)},
        "threads": {thread.id for thread in process.threads()},
        "descriptors": descriptors(pid),
        "is stopped": process.status() == psutil.STATUS_STOPPED,
    }


def descriptors(pid: int) -> list[str]:
    """Open files and pipes, but not sockets (distributed pools them) nor what its monitor reads."""
    paths = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            paths.append(os.readlink(f"/proc/{pid}/fd/{number}"))
        except FileNotFoundError:
            pass  # closed since it was listed
    return sorted(path for path in paths if not path.startswith(("socket:", "/proc/", "/sys/")))


def hooks(dask_scheduler: Any = None) -> dict[str, Any]:
    """State of the scheduler's interpreter that a profiler could leave changed."""
    import gc
    import importlib._bootstrap
    import signal
    import sys
    from asyncio.events import Handle

    import dask.order
    import distributed.scheduler

    tools = getattr(sys, "monitoring", None)
    expressions = sys.modules.get("dask._expr", gc)  # from dask 2025 on
    modules = [distributed.scheduler, dask.order, expressions, importlib._bootstrap]
    holders: list[Any] = [Handle, *modules, dask_scheduler, dask_scheduler.extensions["spans"]]
    holders += dask_scheduler.plugins.values()
    holders += [kind for module in modules for kind in vars(module).values() if type(kind) is type]
    return {
        "attributes": sorted(name for name in vars(dask_scheduler) if "schedprof" in name),
        "signals": {int(n): repr(signal.getsignal(n)) for n in signal.valid_signals()},
        "timers": [signal.getitimer(which) for which in (0, 1, 2)],
        "trace": [repr(sys.gettrace()), repr(sys.getprofile())],
        "tools": tools and [tools.get_tool(number) for number in range(6)],
        "functions": [
            (type(holder), getattr(holder, "__name__", ""), name, id(member))
            for holder in holders
            for name, member in vars(holder).items()
            if callable(member)
        ],
        "collector": list(map(repr, gc.callbacks)),
        "handlers": [
            repr(handler)
            for table in (dask_scheduler.handlers, dask_scheduler.stream_handlers)
            for handler in table.values()
        ],
    }


@pytest.fixture(scope="module", autouse=True)
def own_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a separate directory, so that whatever is left there comes from these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        patch.setattr(tempfile, "tempdir", None)
        yield


def directories() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("schedprof-")}


@pytest.fixture(scope="module")
def begun() -> set[str]:
    """Backends that have recorded once: files opened by a first call are no leak."""
    return set()


@pytest.fixture(autouse=True)
def nothing_is_left(
    cluster: LocalProcesses, control: Control, backend: Backend, begun: set[str]
) -> Iterator[None]:
    """Check that each test leaves processes, threads, descriptors, hooks and files as they were."""
    if backend.name not in begun:
        control.call(do_work, WORK, 1)
        try:
            backend.start(control, timeout_s=200).abandon(timeout_s=200)  # memray keeps one pipe
        except BackendNotInstalledError as absent:
            if "CI" in os.environ:
                raise
            pytest.skip(str(absent))
        begun.add(backend.name)
    before, hooked, files = remains(cluster.pid), control.call(hooks), directories()
    yield
    if cluster.death() is None:
        settle(lambda: bool(control.call(hooks) == hooked), timeout_s=200)
        settle(lambda: remains(cluster.pid) == before, timeout_s=200)
        assert remains(cluster.pid) == before
        assert control.call(hooks) == hooked
    assert directories() <= files


def busy_part(recorder: Recorder, backend: Backend, name: str) -> float:
    """Share of the function, with callees, in what the backend saw the scheduler do."""
    profiles = [
        backend.read(segment.raw[backend.name].content, recorder.control.name_places)
        for segments in recorder.rounds
        for segment in segments
    ]
    return sum(_part(profile, backend, name) for profile in profiles) / len(profiles)


def _part(profile: Profile, backend: Backend, name: str) -> float:
    ends = f":{name}"
    if isinstance(profile, SampleProfile):
        shares = shares_of([[profile]], drift=backend.drift)
        (function,) = [seen for seen in shares.total.inclusive if seen.endswith(ends)] or [""]
        return shares.of_function(function).value
    if "seconds" in backend.metrics:
        return _part_of_time(profile, name)
    metric = "peak" if "peak" in backend.metrics else "bytecodes"
    total = sum(costs[metric] for costs in profile.functions.values())
    mine = [
        costs[metric] for function, costs in profile.functions.items() if function.endswith(ends)
    ]
    return sum(mine) / total


def _part_of_time(profile: CostProfile, name: str) -> float:
    """Share of the function in working time, without time that only passes by the wall clock."""
    waits = ("poll", "sleep", "select", "idle_twin")
    busy = sum(
        costs["self_seconds"]
        for function, costs in profile.functions.items()
        if not any(word in function for word in waits)
    )
    mine = [
        costs["seconds"] for function, costs in profile.functions.items() if f":{name}" in function
    ]
    return 0.0 if name in waits else sum(mine) / busy


@pytest.mark.slow
def test_sees_in_each_round_the_function_that_burns_and_refuses_another_recording(
    control: Control, backend: Backend, work: Callable[..., Seconds]
) -> None:
    recorder, second = (Recorder(control, [backend], 200.0) for _ in range(2))
    cpu = [control.call(cpu_seconds)]
    with recorder.round():
        seconds = [work()]
    cpu.append(control.call(cpu_seconds))
    with recorder.round():
        with second.round():
            seconds.append(work())
        assert len(second.errors) == 1
        assert "is under way on the scheduler" in str(second.errors[0])
    cpu.append(control.call(cpu_seconds))
    assert recorder.errors == []
    burned = busy_part(recorder, backend, "greater_twin")
    less = busy_part(recorder, backend, "lesser_twin")
    is_by_the_clock = backend.name in BY_THE_CLOCK
    # By the clock the scheduler's own ticks, put off by a neighbour, have cost a tenth.
    assert burned + less > (0.7 if is_by_the_clock else 0.9)
    by_the_clock = fmean(greater / (greater + lesser) for greater, lesser, _ in seconds)
    known, width = (by_the_clock, 0.1) if is_by_the_clock else (0.9, 0.07)
    assert burned / (burned + less) == pytest.approx(known, abs=width)
    # A third, if waiting counted. By the clock, to wait for a processor after it counts.
    assert busy_part(recorder, backend, "idle_twin") < (0.2 if is_by_the_clock else 0.1)
    windows = zip(seconds, pairwise(cpu), recorder.rounds, strict=True)
    for (*_, spent), (before, after), (segment,) in windows:
        facts = segment.facts
        assert spent < facts.cpu_seconds < min(after - before, facts.seconds)
        assert facts.tasks == 0


def test_stops_when_the_body_raises(control: Control, backend: Backend) -> None:
    recorder = Recorder(control, [backend], 200.0)
    with pytest.raises(KeyError), recorder.round():
        raise KeyError("the body's own")
    assert recorder.errors == []
    assert len(recorder.rounds[0]) == 1


@pytest.mark.slow
def test_narrowed_round_keeps_the_narrow_part_alone(
    control: Control, backend: Backend, work: Callable[..., Seconds]
) -> None:
    recorder = Recorder(control, [backend], 200.0)
    with recorder.round():
        work(4)
        with recorder.measure():
            pass
    assert busy_part(recorder, backend, "greater_twin") == 0


@pytest.mark.slow
def test_ends_when_the_client_that_started_it_is_gone(
    cluster: LocalProcesses, backend: Backend
) -> None:
    with Control(cluster.address) as gone:
        backend.start(gone, timeout_s=200)


@pytest.mark.slow
def test_scheduler_killed_while_it_is_observed(
    own_cluster: LocalProcesses, hardened: Control, backend: Backend
) -> None:
    recorder = Recorder(hardened, [backend], 30.0, death=own_cluster.death)
    with recorder.round():
        children = psutil.Process(own_cluster.pid).children(recursive=True)
        os.kill(own_cluster.pid, signal.SIGKILL)
        wait_for(lambda: own_cluster.death() is not None, "the scheduler to die")
    assert len(recorder.errors) == 1
    assert "was killed by signal 9" in str(recorder.errors[0])
    wait_for(lambda: not any(child.is_running() for child in children), "its children to end")


@pytest.mark.parametrize("backend", TELLING_NO_FUNCTION, indirect=True)
def test_another_one_is_refused_and_nothing_is_left(control: Control, backend: Backend) -> None:
    before = control.call(hooks)
    recording = backend.start(control, timeout_s=200)
    with pytest.raises(RecordingError, match="is under way on the scheduler"):
        backend.start(control, timeout_s=200)
    during = control.call(hooks)
    changed = {name for name in before if before[name] != during[name]} - {"attributes"}
    assert changed  # so it would be seen if it were left
    recording.stop(timeout_s=200)


@pytest.mark.parametrize("backend", [*map(marked, BACKENDS + TELLING_NO_FUNCTION)], indirect=True)
def test_stop_after_the_scheduler_forgot_it_is_one_clear_error(
    control: Control, backend: Backend
) -> None:
    recording = backend.start(control, timeout_s=200)
    recording.abandon(timeout_s=200)
    with pytest.raises(RecordingError, match="knows nothing of this"):
        recording.stop(timeout_s=200)
