"""Tests of tachyon beyond its contract: what its modes show, and where it is refused."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from support import Project
from test_contract import SINCE, WORK, do_work

from pytest_schedprof.agent.sampler import QUALITY
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.backends.tachyon import TachyonBackend, TachyonRecording, refusal
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import BackendNotInstalledError, RecordingError
from pytest_schedprof.judge.shares import shares_of
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.profile import SampleProfile

is_older = pytest.mark.skipif(sys.version_info >= SINCE["tachyon"], reason="it has tachyon")
has_it = pytest.mark.skipif(sys.version_info < SINCE["tachyon"], reason="it came with Python 3.15")


def profile_of(control: Control, work: Any, **options: object) -> SampleProfile:
    backend = TachyonBackend(rate_hz=500, options=options)
    recorder = Recorder(control, [backend], 200.0)
    with recorder.round():
        control.call(work)
    assert recorder.errors == []
    content = recorder.rounds[0][0].raw["tachyon"].content
    return backend.read(content, control.name_places)


def named(profile: SampleProfile, name: str) -> int:
    """Count the samples of functions whose names end so."""
    stacks = [profile.stacks[index] for thread in profile.threads for index in thread]
    return sum(function.endswith(name) for stack in stacks for function in set(stack))


def wait_a_little(dask_scheduler: Any = None) -> None:
    import time

    time.sleep(0.3)


def handle_errors(dask_scheduler: Any = None) -> None:
    import time

    end = time.process_time() + 0.2
    while time.process_time() < end:
        try:
            raise ValueError
        except ValueError:
            sum(range(20_000))


def collect(dask_scheduler: Any = None) -> None:
    import gc
    import time

    def collect_once() -> None:  # tachyon keeps whether a frame collected when it saw it first
        gc.collect()

    junk: list[list[int]] = [[] for _ in range(100_000)]
    end = time.process_time() + 0.2
    while time.process_time() < end:
        collect_once()
    junk.clear()


def sort(dask_scheduler: Any = None) -> None:
    import time

    end = time.process_time() + 0.2
    while time.process_time() < end:
        sorted(range(50_000), key=lambda number: -number)


async def spin_in_a_task(dask_scheduler: Any = None) -> None:
    import asyncio
    import time

    async def inner() -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            sum(range(20_000))
            await asyncio.sleep(0)

    async def outer() -> None:
        await asyncio.create_task(inner(), name="inner-17")

    await outer()


@has_it
def test_waiting_is_seen_in_mode_wall_alone(control: Control) -> None:
    profiles = {
        mode: profile_of(control, wait_a_little, mode=mode) for mode in ("wall", "cpu", "gil")
    }
    assert named(profiles["wall"], ":wait_a_little") > 20
    assert named(profiles["cpu"], ":wait_a_little") < 20
    assert named(profiles["gil"], ":wait_a_little") < 20
    assert [profile.mode for profile in profiles.values()] == ["wall", "", "gil"]


@has_it
def test_mode_exception_sees_who_handles_one(control: Control) -> None:
    profile = profile_of(control, handle_errors, mode="exception")
    assert named(profile, ":handle_errors") > 10
    everything = profile_of(control, handle_errors)
    assert named(everything, ":handle_errors") > named(profile, ":handle_errors") / 2
    assert named(profile_of(control, sort, mode="exception"), ":sort") == 0


@has_it
def test_the_garbage_collector_is_an_owner(control: Control) -> None:
    profile = profile_of(control, collect)
    owners = shares_of([[profile]], drift=0.0).total.owners
    assert owners["gc"] > owners.total() / 2
    assert named(profile_of(control, collect, gc=False), "<GC>") == 0


@has_it
def test_calls_of_c_code_have_a_frame_if_asked_for(control: Control) -> None:
    assert named(profile_of(control, sort, native=True), "<native>") > 10
    assert named(profile_of(control, sort), "<native>") == 0


@has_it
def test_tasks_stand_on_what_awaits_them(control: Control) -> None:
    profile = profile_of(control, spin_in_a_task, mode="wall", tasks="running")
    stacks = [stack for stack in profile.stacks if any(f.endswith(".inner") for f in stack)]
    names = [[function.rpartition(":")[2].rpartition(".")[2] for function in s] for s in stacks]
    assert any(stack.index("outer") < stack.index("inner") for stack in names if "outer" in stack)
    assert any("<task>:inner" in stack for stack in stacks)  # without its number
    assert profile.mode == "wall,tasks=running"


@has_it
def test_the_file_begins_with_the_window_and_tells_nothing_of_the_proof(control: Control) -> None:
    profile = profile_of(control, lambda dask_scheduler=None: do_work(WORK, 400_000))
    assert named(profile, ":greater_twin") > named(profile, ":lesser_twin") > 0
    assert named(profile, ":beacon") < named(profile, ":greater_twin") / 5


def answer_with(**figures: float) -> dict[str, Any]:
    """The agent's answer with these figures of a window of ten seconds."""
    quality = {"samples": 1000, "errors": 0, "behind_s": 0.0, "rate_hz": 100, "missed": 0.0}
    log = f"Captured\n{QUALITY}{json.dumps({**quality, **figures})}\n"
    return {"forced": "", "early": False, "status": 0, "log": log, "seconds": 10.0}


@pytest.fixture
def recording(control: Control) -> TachyonRecording:
    return TachyonRecording(control, {"token": "token"}, TachyonBackend(rate_hz=100, options={}))


def test_its_own_figures_become_warnings_and_a_doubt(recording: TachyonRecording) -> None:
    assert (recording.check(answer_with()), recording.doubt(answer_with())) == ((), "")
    few = answer_with(missed=0.05)
    assert recording.check(few) == ("tachyon missed 5% of its samples; lower the rate",)
    assert recording.doubt(few) == ""
    many = answer_with(missed=0.3)
    assert recording.doubt(many) == "tachyon missed 30% of its samples: lower the rate"
    late = answer_with(behind_s=2.0)
    assert "fell 2 s behind in a window of 10.0 s" in recording.doubt(late)
    assert recording.check(answer_with(errors=100)) == ("tachyon failed at 100 of 1000 samples",)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answer_with(errors=600), "failed at 600 of 1000 samples"),
        (
            {**answer_with(), "early": True, "status": 1},
            "ended before the window did, with exit status 1",
        ),
        ({**answer_with(), "log": "Killed\n"}, "left no figures of its samples: 'Killed'"),
        ({**answer_with(), "forced": "tachyon did not end"}, "did not end; its profile is lost"),
    ],
)
def test_a_profile_that_is_not_to_be_trusted_is_refused(
    recording: TachyonRecording, answer: dict[str, Any], words: str
) -> None:
    with pytest.raises(RecordingError, match=words):
        recording.check(answer)


@is_older
def test_a_real_scheduler_is_refused_and_its_python_named(control: Control) -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    with pytest.raises(BackendNotInstalledError) as caught:
        BackendRegistry().make("tachyon", rate_hz=100, options={}).start(control, timeout_s=10)
    message = str(caught.value)
    assert f"runs Python {python}" in message
    assert control.address in message
    assert "use pyspy, or cputime" in message
    assert "\n" not in message


def test_before_python_315_it_is_not_installed() -> None:
    assert (
        "comes with Python 3.15 and newer (profiling.sampling), and the scheduler tcp://a "
        "runs Python 3.14.2; use pyspy" in str(refusal("3.14.2", "the scheduler tcp://a"))
    )


@has_it
def test_a_session_judges_by_it(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof("share(@comm) <= 99%", backend="tachyon", rate=500)
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    assert len(client.gather(client.map(inc, range(2000)))) == 2000
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*tachyon: * busy samples, 2000 tasks*", "limits: 1 passed"])
