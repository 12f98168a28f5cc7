"""Tests of counters that the kernel lends, for real: the processor's where there are any."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from pytest_schedprof.agent import perf_events
from pytest_schedprof.agent import perfcount as agent
from pytest_schedprof.agent.perf_events import instructions, open_counter
from pytest_schedprof.agent.recordings import OwnProcess
from pytest_schedprof.backends.perfcount import PerfcountFile
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import BackendUnavailableError
from pytest_schedprof.formats import read_json
from pytest_schedprof.model.profile import CostProfile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system call is Linux's")


def ended(descriptor: int) -> PerfcountFile:
    recording = agent.PerfcountRecording("client", descriptor)
    until = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < until:
        pass
    asyncio.run(recording.end(1))
    recording.remove()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    return read_json(recording.content, PerfcountFile, "perfcount")


def test_the_system_call_counts_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every kernel has a counter of nanoseconds, which takes the same way as that of instructions.
    monkeypatch.setattr(perf_events, "HARDWARE", perf_events.SOFTWARE)
    monkeypatch.setattr(perf_events, "INSTRUCTIONS", perf_events.TASK_CLOCK)
    try:
        descriptor = open_counter(instructions())
    except OSError as error:
        pytest.skip(f"this system permits no counter: {error}")
    found = ended(descriptor)
    assert 20e6 <= found.instructions <= found.enabled_ns
    assert found.is_complete


def test_instructions_are_counted_or_it_is_told_why_not(control: Control) -> None:
    backend = BackendRegistry().make("perfcount", rate_hz=100, options={})
    try:
        recording = backend.start(control, timeout_s=10)
    except BackendUnavailableError:
        with pytest.raises(BackendUnavailableError, match=r"counter.*; .*callgrind"):
            backend.start(control, timeout_s=10)
        return
    raw = recording.stop(timeout_s=10)
    profile = backend.read(raw.content, control.name_places)
    assert isinstance(profile, CostProfile)
    assert profile.whole["instructions"] > 1000


def test_only_one_counter_at_once() -> None:
    holder = OwnProcess()
    first = agent.start("client", dask_scheduler=holder)
    if "problem" in first:
        assert first["problem"] == "refused"
        return
    assert agent.start("client", dask_scheduler=holder) == {"problem": "busy"}
