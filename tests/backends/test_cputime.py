"""Tests specific to cputime: others' timers, C code, clock rate, and a loop in another thread."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hardening import filter_counters
from support import python

from pytest_schedprof.agent import cputime as agent
from pytest_schedprof.agent.checkup import tick_hz
from pytest_schedprof.agent.cputime import (
    KernelClock,
    Sampler,
    SignalSampler,
    finest_clock,
    ticks_of,
    unit_of,
)
from pytest_schedprof.backends.contract import RawProfile
from pytest_schedprof.backends.cputime import CpuTimeBackend
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import BackendUnavailableError, RecordingError
from pytest_schedprof.judge.shares import Shares, shares_of


def burn(dask_scheduler: Any = None) -> None:
    import time

    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass


def burn_in_c(dask_scheduler: Any = None) -> None:
    """Make a few long calls of C code; signal handlers can run only between them."""
    import time

    end = time.process_time() + 0.5
    while time.process_time() < end:
        sum(range(5_000_000))


def record(control: Control, rate_hz: float, *work: Any) -> tuple[RawProfile, Shares]:
    backend = CpuTimeBackend(rate_hz=rate_hz, options={})
    recording = backend.start(control, timeout_s=200)
    for function in work:
        control.call(function)
    raw = recording.stop(timeout_s=200)
    profile = backend.read(raw.content, control.name_places)
    return raw, shares_of([[profile]], drift=backend.drift)


def share_of(shares: Shares, name: str) -> float:
    return sum(
        shares.of_function(function).value
        for function in shares.total.own
        if function.endswith(f":{name}")
    )


@pytest.mark.slow
def test_long_calls_of_c_code_count_by_the_time_they_took(control: Control) -> None:
    raw, shares = record(control, 100, burn, burn_in_c)
    assert share_of(shares, "burn_in_c") == pytest.approx(0.5, abs=0.1)
    assert share_of(shares, "burn") == pytest.approx(0.5, abs=0.1)
    assert any("came together with others" in text for text in raw.warnings)


def litter_and_collect(dask_scheduler: Any = None) -> float:
    """Return the share of its own CPU time that the garbage collector used."""
    import gc
    import time

    held = [{number: [number]} for number in range(200_000)]
    before, collecting = time.process_time(), 0.0
    while (now := time.process_time()) < before + 1:
        gc.collect()
        collecting += time.process_time() - now
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
    del held
    return collecting / (time.process_time() - before)


@pytest.mark.slow
def test_collector_counts_by_the_callback_at_its_end(control: Control) -> None:
    backend = CpuTimeBackend(rate_hz=200, options={})
    recording = backend.start(control, timeout_s=200)
    part = control.call(litter_and_collect)
    profile = backend.read(recording.stop(timeout_s=200).content, control.name_places)
    shares = shares_of([[profile]], drift=backend.drift)
    assert shares.of("share", "@gc").value == pytest.approx(part, abs=0.2)
    assert part > 0.2
    assert shares.doubt("share", "@gc") == ""


def test_samples_are_as_many_as_the_cpu_time_allows(control: Control) -> None:
    _, shares = record(control, 50, burn)
    assert shares.total.busy == pytest.approx(25, abs=4)


FAST_HZ = 1000


def lends_its_clock() -> bool:
    """Whether this kernel lends its clock of CPU time, whose ticks may be of any length."""
    clock = finest_clock(1 / FAST_HZ)
    clock.stop()
    return isinstance(clock, KernelClock)


def is_told(raw: RawProfile) -> bool:
    """Whether the result says that the rate was not reached."""
    return any("the system's clock gives" in text for text in raw.warnings)


def test_rate_above_the_kernels_tick_is_reached_where_it_lends_its_clock(control: Control) -> None:
    raw, shares = record(control, FAST_HZ, burn)
    assert is_told(raw) or shares.total.busy > 0.75 * 0.5 * FAST_HZ
    assert not (is_told(raw) and lends_its_clock())


def test_a_clock_whose_signals_are_refused_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, number: int) -> None:
        refused.append(descriptor)
        raise PermissionError

    refused: list[int] = []
    monkeypatch.setattr(agent, "send_signals", refuse)
    clock = finest_clock(1 / FAST_HZ)
    assert isinstance(clock, agent.TimerClock)
    for descriptor in refused:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
def test_timer_samples_where_a_filter_refuses_the_kernels_clock(hardened: Control) -> None:
    hardened.call(filter_counters)
    raw, shares = record(hardened, FAST_HZ, burn)
    assert share_of(shares, "burn") > 0.9
    assert is_told(raw) is (tick_hz() < 0.75 * FAST_HZ)
    assert all("CAP_PERFMON it has a finer one" in text for text in raw.warnings[:1])


def test_rate_that_the_clock_cannot_give_is_told(control: Control) -> None:
    raw, shares = record(control, 20_000, burn)
    assert is_told(raw)
    assert share_of(shares, "burn") > 0.9


def start_timer(dask_scheduler: Any = None) -> None:
    import signal

    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_PROF, 1000)


def timer_runs(dask_scheduler: Any = None) -> bool:
    import signal

    runs = signal.getitimer(signal.ITIMER_PROF)[0] > 0
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    return runs


def test_timer_of_another_profiler_is_refused_and_left_alone(control: Control) -> None:
    control.call(start_timer)
    with pytest.raises(RecordingError, match="one timer for CPU time: stop the other"):
        CpuTimeBackend(rate_hz=100, options={}).start(control, timeout_s=200)
    assert control.call(timer_runs)


BEGIN_AND_END = """
import os, signal, threading, time, zlib
from pytest_schedprof.agent.cputime import SignalSampler

letters = os.urandom(1 << 20)

def compress():
    while True:
        zlib.compress(letters)

for _ in range(3):
    threading.Thread(target=compress, daemon=True).start()
end = time.monotonic() + 3
while time.monotonic() < end:
    sampler = SignalSampler(0.001)
    assert sampler.begin() == ""
    time.sleep(0.002)
    sampler.end()
signal.raise_signal(signal.SIGPROF)
signal.signal(signal.SIGPROF, lambda number, frame: print("heard"))
assert sampler.begin() == ""
sampler.end()
signal.raise_signal(signal.SIGPROF)
"""


@pytest.mark.slow
def test_tick_that_comes_after_the_end_does_not_kill() -> None:
    """Any thread may get a tick; a pending one must not meet the default action, which kills."""
    ran = python("-c", BEGIN_AND_END)
    assert ran.stderr == ""
    assert ran.stdout.endswith("heard\n")


def test_tick_that_comes_while_it_ends_does_not_let_the_clock_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampler = SignalSampler(0.002)
    assert sampler.begin() == ""
    stop, went_on = sampler.clock.stop, []
    monkeypatch.setattr(sampler.clock, "go_on", lambda: went_on.append("after its end"))

    def stop_with_a_tick_on_its_way() -> None:
        stop()
        went_on.clear()
        signal.raise_signal(signal.SIGPROF)

    monkeypatch.setattr(sampler.clock, "stop", stop_with_a_tick_on_its_way)
    sampler.end()
    assert went_on == []


FORK = """
import os, signal, time
from pytest_schedprof.agent.cputime import SignalSampler

def burn():
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass

sampler = SignalSampler(0.002)
assert sampler.begin() == ""
burn()
go_on, signal_end = os.pipe()
child = os.fork()
if not child:
    known = len(sampler.times)
    burn()
    os.read(go_on, 1)
    os._exit(len(sampler.times) != known)
sampler.end()
known = len(sampler.times)
assert known > 10, known
signal.signal(signal.SIGPROF, lambda number, frame: print("a late tick"))
burn()
assert len(sampler.times) == known
os.write(signal_end, b"e")
assert os.waitpid(child, 0)[1] == 0
"""


def test_forked_child_is_not_sampled_and_does_not_keep_the_clock_running() -> None:
    ran = python("-c", FORK)
    assert (ran.stderr, ran.stdout) == ("", "")


LOOP_IN_A_THREAD = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    options = {"n_workers": 0, "processes": False, "protocol": "tcp", "dashboard_address": None}
    with LocalCluster(**options) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def loop_in_a_thread() -> Iterator[str]:
    """A scheduler whose event loop is not in the main thread of its process."""
    with subprocess.Popen(
        [sys.executable, "-c", LOOP_IN_A_THREAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def test_loop_in_another_thread_is_sampled_from_beside_where_that_is_safe(
    loop_in_a_thread: str,
) -> None:
    with Control(loop_in_a_thread) as control:
        if sys.version_info[:2] == (3, 11):
            with pytest.raises(BackendUnavailableError, match="may crash when another thread"):
                record(control, 100)
        else:
            raw, shares = record(control, 100, burn)
            assert share_of(shares, "burn") > 0.9
            assert "a thread beside it took the samples" in raw.warnings[0]
            profile = CpuTimeBackend(rate_hz=100, options={}).read(raw.content, control.name_places)
            assert profile.mode == "thread"


def sampled_at(*times: float) -> Sampler:
    sampler = Sampler(0.01)
    for cpu in times:
        sampler.take(None, cpu)
    return sampler


def test_the_tests_process_is_refused_in_another_thread() -> None:
    process, backend = InProcess(), CpuTimeBackend(rate_hz=200, options={})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        started = pool.submit(backend.start, process, timeout_s=200)
        with pytest.raises(RecordingError, match="from its main thread only"):
            started.result()
    process.leave(())


def test_unit_is_what_was_asked_for_or_what_the_clock_gave() -> None:
    assert unit_of(sampled_at()) == 0.01
    assert unit_of(sampled_at(0.010, 0.020, 0.030, 0.040)) == pytest.approx(0.01)
    assert unit_of(sampled_at(0.012, 0.024, 0.036, 0.060)) == pytest.approx(0.012)


def test_ticks_add_up_to_the_time_whatever_came_late() -> None:
    sampler = sampled_at(0.014, 0.026, 0.031, 0.080, 0.081)
    assert list(ticks_of(sampler, 0.01)) == [1, 2, 0, 5, 0]
