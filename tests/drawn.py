"""Runs with samples, written by hand: pages with all pictures, without a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from measured import ENVIRONMENT, counted, measured, sampled
from msgspec.structs import replace

from pytest_schedprof.formats.speedscope import Frame, name_frames, read_speedscope
from pytest_schedprof.judge.recordings import Names
from pytest_schedprof.judge.shares import shares_of
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.store.records import encode
from pytest_schedprof.store.sources import add_sources

LOOP = "asyncio.base_events:BaseEventLoop._run_once"
HANDLE = "distributed.core:Server.handle_stream"
FINISHED = "distributed.scheduler:Scheduler.handle_task_finished"
TRANSITION = "distributed.scheduler:SchedulerState._transition"
OCCUPANCY = "distributed.scheduler:SchedulerState._calc_occupancy"
WRITE = "distributed.comm.tcp:TCP.write"
DUMPS = "json:dumps"
COLLECT = "distributed.gc:GCDiagnosis._gc_callback"

IN_TASKS = (LOOP, HANDLE, FINISHED, TRANSITION)
STACKS: Sequence[tuple[Function, ...]] = (
    IN_TASKS,
    (*IN_TASKS, OCCUPANCY),
    (*IN_TASKS, WRITE, DUMPS),
    (LOOP, WRITE),
    (LOOP, WRITE, DUMPS),
    (*IN_TASKS, COLLECT),
)

ORDER = [3] * 100 + [4] * 100 + ([0] * 4 + [1] * 4 + [2] * 2) * 60 + [5] * 100
"""Indexes of the samples: first all writes, then all transitions, at last the collector."""

SAMPLES_FILE = "scheduler.cputime.speedscope.json"


def speedscope(stacks: Sequence[tuple[Function, ...]], order: Sequence[int]) -> bytes:
    """A file of samples of 10 ms; the line of each function grows with the number of its stack."""
    frames: dict[Frame, int] = {}
    indexed = [
        tuple(frames.setdefault(_frame(name, number), len(frames)) for name in stack)
        for number, stack in enumerate(stacks)
    ]
    thread = {
        "type": "sampled",
        "name": "MainThread",
        "startValue": 0,
        "endValue": len(order) * 0.01,
        "samples": [indexed[index] for index in order],
    }
    return msgspec.json.encode({"shared": {"frames": list(frames)}, "profiles": [thread]})


def _frame(function: Function, number: int) -> Frame:
    module, _, name = function.partition(":")
    return Frame(name, f"/env/site-packages/{module.replace('.', '/')}.py", 100 + number)


def drawn(
    stacks: Sequence[tuple[Function, ...]] = STACKS, order: Sequence[int] = ORDER
) -> BackendResult:
    """The result of `cputime` for these samples."""
    names = Names(name for stack in stacks for name in stack)
    file = read_speedscope(speedscope(stacks, order))
    profile = name_frames(file, names, backend="cputime", mode="")
    shares = shares_of([[profile]], drift=0.05).sampled()
    blank = replace(sampled({stacks[0]: 1.0}, cpu=[300e-6]), shares=shares)
    return replace(blank, artifacts=(SAMPLES_FILE,))


def drawn_test(test_id: str = "test_a.py::test_b", *more: BackendResult) -> Result:
    """A test with samples and counts."""
    return measured(drawn(), counted({TRANSITION: 1052.0, WRITE: 50.0}), *more, test_id=test_id)


CODE = "distributed 2026.8.0"
"""The code of the scheduler, of which a run keeps sources."""


def with_sources(run: Path, result: Result) -> Result:
    """The result with sources of its functions in the run: 20 lines from line 95 on."""
    text = "\n".join(f"    line_{number} = 0" for number in range(95, 115))
    names = (TRANSITION, WRITE, OCCUPANCY)
    add_sources(run, CODE, {name: Source("/env/a.py", 95, text) for name in names})
    return replace(result, environment=replace(ENVIRONMENT, code=CODE))


def kept(path: Path, *results: Result, samples: bytes | None = None) -> Path:
    """A run's directory with these records and their files of samples."""
    entries = []
    for number, result in enumerate(results):
        place = path / str(number)
        place.mkdir(parents=True)
        (place / "result.json").write_bytes(encode(result))
        if any(SAMPLES_FILE in backend.artifacts for backend in result.backends):
            (place / SAMPLES_FILE).write_bytes(samples or speedscope(STACKS, ORDER))
        entries.append(TestEntry(result.test_id, result.outcome, result.verdict, str(number)))
    run = Run(path.name, "2026-01-01T00:00:00+00:00", 0, tuple(entries))
    (path / "run.json").write_bytes(encode(run))
    return path
