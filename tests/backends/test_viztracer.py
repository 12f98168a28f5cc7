"""Tests specific to viztracer: sparse tracing, options, formats, full buffers, and leftovers."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support import settle

from pytest_schedprof.agent import recordings
from pytest_schedprof.agent import viztracer as agent
from pytest_schedprof.agent.names import SENT
from pytest_schedprof.agent.patches import in_steps
from pytest_schedprof.backends.contract import RawProfile, Recording
from pytest_schedprof.backends.counts import CountsBackend
from pytest_schedprof.backends.cprofile import CProfileBackend
from pytest_schedprof.backends.viztracer import VizTracerBackend
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.control.reachability import complete
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    RecordingError,
    SchedulerLostError,
)
from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.profile import CostProfile

RUN = "distributed.Scheduler.run_function"
"""The handler that runs each call of the control line; it returns a coroutine."""


def make(**options: object) -> VizTracerBackend:
    return VizTracerBackend(rate_hz=100, options={"format": "json", **options})


def record(control: Control, work: Callable[..., Any], **options: object) -> RawProfile:
    """Return the raw profile of a piece of work in the scheduler."""
    return recorded(control, work, **options)[0]


def recorded(
    control: Control, work: Callable[..., Any], **options: object
) -> tuple[RawProfile, Any]:
    """Return the same, and what the work returned."""
    recording = make(**options).start(control, timeout_s=200)
    returned = control.call(work)
    return recording.stop(timeout_s=200), returned


def costs(control: Control, work: Callable[..., Any], **options: object) -> dict[str, Any]:
    return costs_of(control, record(control, work, **options), **options)


def costs_of(control: Control, raw: RawProfile, **options: object) -> dict[str, Any]:
    return dict(make(**options).read(raw.content, control.name_places).functions)


def mine(name: str, names: Iterable[str]) -> str:
    """A function of this module, sent by value; cloudpickle 3.1.3 tells no module of it."""
    ends = (f":{name}", f"<locals>.{name}")
    sent = [known for known in names if "test_viztracer:" in known or known.startswith(SENT)]
    (function,) = [known for known in sent if known.endswith(ends)]
    return function


def events(raw: RawProfile) -> list[dict[str, Any]]:
    return list(json.loads(raw.content)["traceEvents"])


def burn(dask_scheduler: Any = None) -> None:
    import time

    def inner(end: float) -> None:
        while time.perf_counter() < end:
            pass

    inner(time.perf_counter() + 0.05)


async def rest(dask_scheduler: Any = None) -> dict[str, float]:
    """Work, then sleep while others work, then work again; return how long each lasted."""
    import asyncio
    import time

    lasted = {"own": 0.0, "others": 0.0}

    def work(seconds: float, whose: str) -> None:
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            pass
        lasted[whose] += time.perf_counter() - began

    def work_of_others() -> None:
        work(0.2, "others")

    began = time.perf_counter()
    asyncio.get_running_loop().call_later(0.05, work_of_others)
    work(0.02, "own")
    slept = time.perf_counter()
    await asyncio.sleep(0.4)
    lasted["sleep"] = time.perf_counter() - slept
    work(0.02, "own")
    return {**lasted, "all": time.perf_counter() - began}


def state(dask_scheduler: Any = None) -> dict[str, Any]:
    """Everything that a recording could leave in the interpreter or on the scheduler."""
    import gc
    import sys
    import threading

    from distributed import Scheduler
    from distributed.scheduler import SchedulerState

    tables: list[Any] = [vars(Scheduler), vars(SchedulerState), SchedulerState._TRANSITIONS_TABLE]
    tables += [dask_scheduler.handlers, dask_scheduler.stream_handlers]
    tables += [vars(callback) for callback in dask_scheduler.periodic_callbacks.values()]
    monitoring = getattr(sys, "monitoring", None)
    return {
        "functions": [
            (str(key), id(getattr(value, "__func__", value)))
            for table in tables
            for key, value in table.items()
            if callable(getattr(value, "__func__", value))
        ],
        "hooks": (sys.getprofile() is None, threading.getprofile() is None),
        "tools": [monitoring.get_tool(number) for number in range(6)] if monitoring else [],
        "collector": len(gc.callbacks),
        "threads": threading.active_count(),
    }


@contextmanager
def nothing_left(control: Control) -> Iterator[dict[str, Any]]:
    control.call(burn)
    before = control.call(state)
    yield before
    assert control.call(state) == before


def hide_viztracer(dask_scheduler: Any = None) -> None:
    import sys

    sys.modules["viztracer"] = None  # type: ignore[assignment]


def test_not_installed_says_how_to_install_it_there(hardened: Control) -> None:
    hardened.call(hide_viztracer)
    with pytest.raises(BackendNotInstalledError, match=r"python\S* -m pip install viztracer"):
        make().start(hardened, timeout_s=200)


def test_functions_have_qualified_names_and_those_of_c_their_modules(control: Control) -> None:
    functions = costs(control, burn)
    assert "distributed.worker:run" in functions
    assert any(
        name.startswith("distributed.") and "." in name.partition(":")[2] for name in functions
    )
    assert "time:perf_counter" in functions
    inner = mine("inner", functions)
    assert 0.04 < functions[inner]["seconds"] < 5
    assert functions[inner]["self_seconds"] < functions[inner]["seconds"]
    assert [name for name in functions if "/" in name or name.startswith(":")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"trace_sparse": [RUN]}, {"log_sparse": [RUN]}, {"log_gc": True, "log_async": True}],
    ids=",".join,
)
def test_nothing_is_left(
    control: Control, cluster: LocalProcesses, options: dict[str, object]
) -> None:
    with nothing_left(control) as before:
        record(control, burn, **options)
        make(**options).start(control, timeout_s=200).abandon(timeout_s=200)
        with Control(cluster.address) as gone:
            make(**options).start(gone, timeout_s=200)
        settle(lambda: bool(control.call(state) == before), timeout_s=200)


def test_tracers_are_used_again_for_a_process_has_room_for_about_a_thousand(
    control: Control,
) -> None:
    def tracers(dask_scheduler: Any = None) -> int:
        import viztracer

        return len(viztracer._schedprof_tracers)

    for _ in range(3):
        record(control, burn, tracer_entries=1234)
    before = control.call(tracers)
    record(control, burn, tracer_entries=1234)
    assert control.call(tracers) == before


def test_traces_only_while_a_named_coroutine_runs_and_not_while_it_waits(control: Control) -> None:
    raw, lasted = recorded(control, rest, trace_sparse=[RUN])
    functions = costs_of(control, raw)
    seen = {name.rpartition(".")[2] for name in functions}
    assert {"run_function", "rest", "work"} <= {name.rpartition(":")[2] for name in seen}
    assert "work_of_others" not in seen
    assert "asyncio.base_events:BaseEventLoop._run_once" not in functions
    (named,) = [costs for name, costs in functions.items() if name.endswith(":rest")]
    assert lasted["own"] < named["seconds"] < lasted["all"] - lasted["sleep"] / 2


def identity(control: Control) -> None:
    """Call a handler that is a plain function twice."""
    for _ in range(2):
        control._client.sync(control._client.scheduler.identity)


def test_a_named_handler_is_traced_with_what_it_calls_and_one_not_called_is_told(
    control: Control,
) -> None:
    names = "distributed.Scheduler.identity distributed.Scheduler.add_plugin"
    recording = make(trace_sparse=names).start(control, timeout_s=200)
    identity(control)
    control.call(burn)
    raw = recording.stop(timeout_s=200)
    functions = costs_of(control, raw)
    calls = [event["name"].partition(" ")[0] for event in events(raw) if event["ph"] == "X"]
    assert len([name for name in calls if name.endswith("identity")]) == 2
    assert "distributed.scheduler:Scheduler.identity" in functions
    assert len(functions) > 2
    assert [name for name in functions if "burn" in name] == []
    (warning,) = raw.warnings
    assert "distributed.Scheduler.add_plugin was not called" in warning


@pytest.mark.parametrize(
    "name", ["distributed.Scheduler.identity", "distributed.scheduler:Scheduler.identity"]
)
def test_logs_the_named_function_alone_once_for_each_call(control: Control, name: str) -> None:
    recording = make(log_sparse=[name]).start(control, timeout_s=200)
    identity(control)
    raw = recording.stop(timeout_s=200)
    assert len([event for event in events(raw) if event["ph"] == "X"]) == 2
    assert list(costs_of(control, raw)) == ["distributed.scheduler:Scheduler.identity"]
    assert raw.warnings == ()


def test_a_logged_coroutine_has_an_event_for_each_time_it_goes_on(control: Control) -> None:
    raw, lasted = recorded(control, rest, log_sparse=[RUN])
    mine = [event["dur"] for event in events(raw) if event["ph"] == "X"]
    assert all("run_function" in event["name"] for event in events(raw) if event["ph"] == "X")
    assert len([duration for duration in mine if duration > 15_000]) >= 2
    assert lasted["own"] < sum(mine) / 1e6 < lasted["all"] - lasted["sleep"] / 2


def define_kinds(dask_scheduler: Any = None) -> None:
    """Create a module on the scheduler with a function of each kind."""
    import sys
    import types

    class Base:
        def inherited(self) -> None:
            pass

    class Kinds(Base):
        @staticmethod
        def static() -> None:
            pass

        @classmethod
        def of_class(cls) -> str:
            return cls.__name__

    sys.modules["kinds"] = types.ModuleType("kinds")
    sys.modules["kinds"].__dict__["Kinds"] = Kinds


def call_each_kind(dask_scheduler: Any = None) -> None:
    import sys

    import distributed.utils

    kinds = sys.modules["kinds"].__dict__["Kinds"]
    kinds().inherited()
    kinds.static()
    assert kinds().of_class() == kinds.of_class() == "Kinds"
    assert distributed.utils.parse_ports("1") == [1]
    dask_scheduler.periodic_callbacks["idle-timeout"].callback()
    transition = dask_scheduler._TRANSITIONS_TABLE["released", "waiting"]
    try:
        transition(dask_scheduler, "no such key", "no stimulus")
    except KeyError:
        pass


CALLS = {
    "kinds.Kinds.inherited": 1,
    "kinds.Kinds.static": 1,
    "kinds.Kinds.of_class": 2,
    "distributed.utils.parse_ports": 1,
    "distributed.Scheduler.check_idle": 1,
    "distributed.scheduler.SchedulerState._transition_released_waiting": 1,
}


def test_functions_are_found_wherever_they_are_looked_up(control: Control) -> None:
    control.call(define_kinds)
    with nothing_left(control):
        raw = record(control, call_each_kind, log_sparse=[*CALLS])
    logged = [event["name"] for event in events(raw) if event["ph"] == "X"]
    for name, calls in CALLS.items():
        seen = len([event for event in logged if name.rpartition(".")[2] in event])
        assert seen == calls or ("idle" in name and seen > calls)  # a timer calls it too
    assert raw.warnings == ()


REASONS = {
    "distributed.Scheduler.no_such_function": "AttributeError",
    "no_such_module.function": "ModuleNotFoundError",
    "function": "ValueError",
    "distributed.Scheduler": "TypeError",
    "distributed.Scheduler.default_port": "TypeError",
    "builtins.str.upper": "TypeError",
}


@pytest.mark.parametrize("option", ["trace_sparse", "log_sparse"])
def test_a_name_that_cannot_be_patched_is_told_and_nothing_is(
    control: Control, option: str
) -> None:
    with nothing_left(control):
        for name, reason in REASONS.items():
            words = rf"cannot patch {name!r} .*{reason}.* as for unittest\.mock\.patch"
            with pytest.raises(RecordingError, match=words):
                make(**{option: [RUN, name]}).start(control, timeout_s=200)


def take_hook(dask_scheduler: Any = None) -> None:
    """Take the hook from whoever has it, as some profilers do."""
    import sys

    if hasattr(sys, "monitoring"):
        if sys.monitoring.get_tool(2) is not None:
            sys.monitoring.free_tool_id(2)
        sys.monitoring.use_tool_id(2, "other")
    else:
        sys.setprofile(lambda *arguments: None)


def give_hook_back(dask_scheduler: Any = None) -> bool:
    """Release the hook; return whether it was still held."""
    import sys

    if hasattr(sys, "monitoring"):
        was_there = bool(sys.monitoring.get_tool(2) == "other")
        sys.monitoring.free_tool_id(2)
    else:
        was_there = sys.getprofile() is not None
        sys.setprofile(None)
    return was_there


def test_a_cprofile_at_work_is_refused_and_goes_on(control: Control) -> None:
    other = CProfileBackend(rate_hz=100, options={})
    recording = other.start(control, timeout_s=200)
    with pytest.raises(RecordingError, match="is under way on the scheduler"):
        make().start(control, timeout_s=200)
    control.call(burn)
    profile = other.read(recording.stop(timeout_s=200).content, control.name_places)
    assert any(name.endswith("burn") for name in profile.functions)


def test_a_profiler_that_was_in_the_place_of_cprofile_is_noticed(control: Control) -> None:
    recording = CProfileBackend(rate_hz=100, options={}).start(control, timeout_s=200)
    control.call(take_hook)
    control.call(give_hook_back)
    is_newer = hasattr(sys, "monitoring")
    reason = "tool 2 is not in use" if is_newer else "another profiler took its place"
    with pytest.raises(RecordingError, match=reason):
        recording.stop(timeout_s=200)


@pytest.mark.parametrize("options", [{}, {"trace_sparse": [RUN]}], ids=["all", "sparse"])
def test_a_profiler_that_takes_its_place_makes_the_trace_void_and_is_left_alone(
    control: Control, options: dict[str, object]
) -> None:
    recording = make(**options).start(control, timeout_s=200)
    control._client.sync(control._client.scheduler.identity)
    control.call(take_hook)
    control.call(burn)
    with pytest.raises(RecordingError, match="took viztracer's place"):
        recording.stop(timeout_s=200)
    assert control.call(give_hook_back)
    assert costs(control, burn)


def test_an_overflow_is_told_and_no_limit_can_be_judged(control: Control) -> None:
    raw = record(control, burn, tracer_entries=1000)
    (warning,) = raw.warnings
    assert "overflowed: the trace holds the last 1000 entries" in warning
    assert "raise viztracer.tracer_entries" in warning
    profile = make(tracer_entries=1000).read(raw.content, control.name_places)
    assert isinstance(profile, CostProfile)
    assert profile.doubt == warning
    costs = Costs([unit_of(1, {}, [profile])])
    judged = judge(parse_limit("seconds(@transitions) <= 1s"), costs, [])
    assert (judged.verdict, judged.note) == (Verdict.INCONCLUSIVE, warning)
    assert len([event for event in events(raw) if event["ph"] != "M"]) == 1000
    assert record(control, burn).warnings == ()


def test_a_limit_on_what_is_not_in_the_trace_is_inconclusive(control: Control) -> None:
    options = {"log_sparse": [RUN]}
    profile = make(**options).read(record(control, burn, **options).content, control.name_places)
    assert isinstance(profile, CostProfile)
    (seen,) = profile.functions
    costs = Costs([unit_of(1, {}, [profile])])
    hidden = "distributed.scheduler:SchedulerState._transition"
    verdicts = [
        judge(parse_limit(f"seconds({function}) <= 100s"), costs, [function])
        for function in (seen, hidden)
    ]
    assert [verdict.verdict for verdict in verdicts] == [Verdict.PASS, Verdict.INCONCLUSIVE]
    assert "not in the trace, from which log_sparse=" in verdicts[1].note


@pytest.mark.slow
def test_formats(control: Control) -> None:
    raws = {name: record(control, burn, format=name) for name in ("json", "json.gz", "html")}
    assert json.loads(raws["json"].content)["viztracer_metadata"] == {"overflow": False}
    assert json.loads(gzip.decompress(raws["json.gz"].content))["traceEvents"]
    for name, raw in raws.items():
        backend = make(format=name)
        ending = "json.gz" if name == "json.gz" else "json"
        assert backend.suffix(raw.content) == f"viztracer.{ending}"
        profile = backend.read(raw.content, control.name_places)
        assert isinstance(profile, CostProfile)
        assert any(function.endswith("burn") for function in profile.functions)
        extras = backend.extras(raw.content)
        assert list(extras) == (["viztracer.html"] if name == "html" else [])
    assert b"<html" in extras["viztracer.html"]
    assert b"Scheduler.run_function" in extras["viztracer.html"]


def python_files(raw: RawProfile) -> set[str]:
    names = [event["name"] for event in events(raw) if event["ph"] == "X"]
    return {name.partition(" (")[2].rpartition(":")[0] for name in names if " (" in name}


@pytest.mark.slow
def test_options_reach_viztracer(control: Control) -> None:
    assert costs(control, burn, ignore_c_function=True).keys() & {"time:perf_counter"} == set()
    files = python_files(record(control, burn))
    frozen = {file for file in files if file.startswith("<frozen")}
    run = next(file for file in files if file.endswith("distributed/worker.py"))
    included = record(control, burn, include_files=[run], trace_sparse=[RUN])
    assert python_files(included) == {run}
    assert run not in python_files(record(control, burn, exclude_files=[run]))
    assert python_files(record(control, burn, ignore_frozen=True)) & frozen == set()
    slow = events(record(control, burn, min_duration="10000"))
    slow = slow[: [event["name"] for event in slow].index("schedprof: end")]
    assert all(event["dur"] >= 10_000 for event in slow if event["ph"] == "X")
    shallow = record(control, burn, max_stack_depth=2, trace_sparse=[RUN])
    assert "inner" not in shallow.content.decode()


def collect(dask_scheduler: Any = None) -> None:
    import gc

    gc.collect()


def test_what_can_be_logged_beside_calls(control: Control) -> None:
    assert b"garbage collection" in record(control, collect, log_gc=True).content
    assert b"func_args" in record(control, burn, log_func_args=True).content
    assert b"return_value" in record(control, burn, log_func_retval=True).content
    plain = record(control, burn).content  # options do not affect later recordings
    assert not any(word in plain for word in (b"func_args", b"return_value", b"garbage"))


def test_tasks_on_lines_of_their_own_cost_the_same(control: Control) -> None:
    raw, lasted = recorded(control, rest, log_async=True, ignore_c_function=True)
    functions = costs_of(control, raw)
    assert any(name.endswith("work_of_others") for name in functions)  # unlike in sparse tracing
    worked = lasted["own"] + lasted["others"]
    assert worked < functions[mine("work", functions)]["seconds"] < 1.9 * worked
    loop = functions["asyncio.base_events:BaseEventLoop._run_once"]
    assert loop["self_seconds"] < lasted["sleep"] / 2


def test_the_mode_tells_what_changes_the_meaning_of_seconds() -> None:
    assert make(format="html", tracer_entries=5).mode == ""
    backend = make(trace_sparse="a.b c.d", log_gc="true", min_duration=3)
    assert backend.mode == "trace_sparse=a.b c.d,min_duration=3.0,log_gc=true"
    assert backend.settings["trace_sparse"] == ["a.b", "c.d"]


def stepping(function: Callable[[], Any], taken: list[str]) -> Awaitable[Any]:
    """Run the function's coroutine in steps, and note each step in `taken`."""

    def step(call: Callable[[], Any]) -> Any:
        taken.append("step")
        return call()

    return in_steps(function(), step)


def test_a_coroutine_in_steps_returns_raises_and_is_cancelled_as_it_would_be() -> None:
    taken: list[str] = []

    async def returns() -> int:
        await asyncio.sleep(0)
        return 3

    async def raises() -> None:
        await asyncio.sleep(0)
        raise KeyError("its own")

    async def is_cancelled() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "cleaned up"
        return "was not"

    async def main() -> None:
        assert await stepping(returns, taken) == 3
        assert len(taken) == 2
        with pytest.raises(KeyError, match="its own"):
            await stepping(raises, taken)
        task = asyncio.ensure_future(stepping(is_cancelled, taken))
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "cleaned up"

    asyncio.run(main())


def test_a_coroutine_in_steps_that_is_thrown_away_is_closed() -> None:
    ends: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("closed")

    async def main() -> None:
        async def wrapper() -> None:
            await stepping(waits, [])

        coroutine = wrapper()
        coroutine.send(None)
        coroutine.close()

    asyncio.run(main())
    assert ends == ["closed"]


def die_while_writing(dask_scheduler: Any = None) -> None:
    """Make the scheduler's process die before the trace it writes is whole."""
    import os

    from viztracer import VizTracer

    def dump(tracer: Any, path: str, *arguments: Any, **keywords: Any) -> None:
        with open(path, "w") as file:
            file.write("part of a trace")
        os.kill(os.getpid(), 9)

    VizTracer.dump = dump


def test_scheduler_that_dies_while_it_writes_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with (
        closing(LocalProcesses(0, timeout_s=200)) as cluster,
        Control(cluster.address) as control,
    ):
        recording = make().start(control, timeout_s=200)
        control.call(die_while_writing)
        with pytest.raises(SchedulerLostError):
            recording.stop(timeout_s=200)
    assert list(tmp_path.iterdir()) == []


def after_the_error() -> None:
    pass


async def catching(broken: asyncio.Future[None]) -> None:
    """Catch what the future raises, and return to the coroutine that awaits this one."""
    with suppress(ConnectionError):
        await broken


async def awaiting(broken: asyncio.Future[None]) -> None:
    await catching(broken)
    after_the_error()


async def breaking() -> None:
    loop = asyncio.get_running_loop()
    broken = loop.create_future()
    loop.call_soon(broken.set_exception, ConnectionError())
    await awaiting(broken)


@pytest.fixture
def process() -> Iterator[InProcess]:
    process = InProcess()
    yield process
    process.leave(())


def test_an_error_that_a_coroutine_catches_does_not_end_the_trace(process: InProcess) -> None:
    """Python 3.11 reports the return of `awaiting` without a call, as at each closed connection."""
    filters = list(warnings.filters)
    recording = make().start(process, timeout_s=200)
    complete(breaking())
    complete(breaking())
    raw = recording.stop(timeout_s=200)
    called = [
        event["name"] for event in events(raw) if event["name"].startswith("after_the_error ")
    ]
    assert len(called) == 2
    assert list(warnings.filters) == filters


ENDS: dict[str, Callable[[InProcess, Recording], object]] = {
    "stop": lambda process, recording: recording.stop(timeout_s=200),
    "abandon": lambda process, recording: recording.abandon(timeout_s=200),
    "end_all": lambda process, recording: process.call(recordings.end_all, process.client_id),
}


@pytest.mark.parametrize("end", ENDS)
def test_one_that_fails_to_end_is_over(
    process: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    recording = make().start(process, timeout_s=200)
    if end == "end_all":
        CountsBackend(rate_hz=100, options={}).start(process, timeout_s=200)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "removed"))
    with pytest.raises(FileNotFoundError):
        ENDS[end](process, recording)
    assert recordings.under_way(process.schedulers) == []


def test_a_page_that_cannot_be_made_here_is_refused_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, control: Control
) -> None:
    monkeypatch.setitem(sys.modules, "viztracer", None)
    with pytest.raises(BackendNotInstalledError, match="not installed here") as caught:
        make(format="html").start(control, timeout_s=200)
    assert caught.value.remedies == (f"here: {sys.executable} -m pip install viztracer",)
    assert record(control, burn).content


def test_releases_that_raise_in_traced_code_are_refused(
    monkeypatch: pytest.MonkeyPatch, process: InProcess
) -> None:
    monkeypatch.setattr(agent, "HIDES_RESUMPTIONS", True)
    monkeypatch.setattr("viztracer.__version__", "1.1.0")
    with pytest.raises(BackendNotInstalledError, match=r"viztracer 1\.1\.0 raises .* 1\.1\.1 or"):
        make().start(process, timeout_s=200)
