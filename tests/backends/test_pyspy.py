"""Tests specific to py-spy: modes, permission, installation, and files in pieces."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hardening import KILL, drop_sys_ptrace, filter_tracing, protect
from support import (
    burn_scheduler_cpu,
    environment_behind,
    recorded,
    somebodys_scheduler,
    wait_for,
)
from test_instructions import holds

from pytest_schedprof.agent import pyspy as agent
from pytest_schedprof.agent import recordings
from pytest_schedprof.agent.recordings import ChildRecording, OwnProcess
from pytest_schedprof.backends import pyspy, remote
from pytest_schedprof.backends.pyspy import PySpyBackend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.control.reachability import complete
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    BackendNotPermittedError,
    RecordingError,
)
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.shares import shares_of
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.model.limit import LimitResult, Verdict


def refusal(control: Control) -> str:
    with pytest.raises(BackendNotPermittedError) as caught:
        PySpyBackend(rate_hz=100, options={}).start(control, timeout_s=200)
    assert caught.value.remedies
    return str(caught.value)


def test_filter_is_named_with_what_mends_it_and_the_scheduler_survives_one_that_kills(
    hardened: Control,
) -> None:
    hardened.call(drop_sys_ptrace)
    hardened.call(filter_tracing)
    message = refusal(hardened)
    assert "a seccomp filter there refuses ptrace (EPERM) and process_vm_readv" in message
    assert "Operation not permitted" in message  # py-spy's own message
    assert "cputime and counts need no permission" in message
    hardened.call(filter_tracing, KILL)
    assert "a seccomp filter there refuses ptrace (SIGSYS)" in refusal(hardened)
    hardened.call(burn_scheduler_cpu, 0.3)


def test_protected_process_is_told_from_a_filtered_one(hardened: Control) -> None:
    hardened.call(drop_sys_ptrace)
    hardened.call(protect)
    assert "it is not dumpable" in refusal(hardened)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files of schedulers that start from now on."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_missing_pyspy_is_refused_with_the_remedy_and_a_broken_one_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment_behind(tmp_path / "env")
    backend, directory = PySpyBackend(rate_hz=200, options={}), tmp_path / "env" / "bin"
    monkeypatch.setattr(sys, "executable", str(directory / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    remedy = rf"is not installed where .*there: {directory}/python -m pip install py-spy$"
    with (
        somebodys_scheduler(tmp_path, "--host", "127.0.0.1") as address,
        Control(address) as control,
    ):
        with pytest.raises(BackendNotInstalledError, match=remedy):
            backend.start(control, timeout_s=200)
        (directory / "py-spy").write_bytes(b"\x7fELF but no program")
        (directory / "py-spy").chmod(0o700)
        for _ in range(2):
            with pytest.raises(RecordingError, match=r"not be started where .*Exec format"):
                backend.start(control, timeout_s=200)


@pytest.mark.parametrize(
    "option", ["native", "gil", "idle", "nonblocking", "subprocesses", "functions"]
)
def test_each_mode_records(control: Control, option: str) -> None:
    backend = PySpyBackend(rate_hz=200, options={option: "true"})
    raw = recorded(control, backend, burn_scheduler_cpu, 0.3)
    profile = backend.read(raw.content, control.name_places)
    assert any(name.endswith(":burn_scheduler_cpu") for stack in profile.stacks for name in stack)
    assert profile.mode == ("" if option == "functions" else option)
    assert backend.settings[option] is True


def test_extra_arguments_reach_pyspy(control: Control) -> None:
    backend = PySpyBackend(rate_hz=100, options={"extra": ["--no-such-option"]})
    with pytest.raises(RecordingError, match=r"ended at once with exit status 2: .*no-such-option"):
        backend.start(control, timeout_s=200)


def profiler_of(cluster: LocalProcesses) -> psutil.Process:
    (profiler,) = [
        child for child in psutil.Process(cluster.pid).children() if child.name() == "py-spy"
    ]
    return profiler


@pytest.mark.parametrize("number", [0, signal.SIGINT, signal.SIGKILL])
def test_pyspy_that_ends_halfway_is_no_profile_of_the_window(
    cluster: LocalProcesses, control: Control, number: int
) -> None:
    options = {} if number else {"extra": "--duration 3"}  # it stops by itself
    recording = PySpyBackend(rate_hz=100, options=options).start(control, timeout_s=200)
    profiler = profiler_of(cluster)
    control.call(burn_scheduler_cpu, 0.3)
    profiler.send_signal(number)
    wait_for(lambda: profiler.status() == psutil.STATUS_ZOMBIE, "py-spy to end")
    words = "ended before the window did" + ("" if number else r".*Samples: \d+ Errors")
    with pytest.raises(RecordingError, match=words):
        recording.stop(timeout_s=200)


@pytest.mark.parametrize("name", ["pyspy", "cputime"])
def test_pictures_are_made_of_the_same_samples(control: Control, name: str) -> None:
    formats = "speedscope flamegraph"
    backend = BackendRegistry().make(name, rate_hz=200, options={"formats": formats})
    assert backend.settings["formats"] == formats.split()
    content = recorded(control, backend, burn_scheduler_cpu, 0.3).content
    extras = backend.extras(content)
    assert list(extras) == [f"{name}.svg"]
    title = r"<title>burn_scheduler_cpu \(.*: (\d+) samples"
    (samples,) = re.findall(title, extras[f"{name}.svg"].decode())
    assert int(samples) == sampled(content, "burn_scheduler_cpu") > 3


def sampled(content: bytes, name: str) -> int:
    """Number of samples that contain a function."""
    file = read_speedscope(content)
    mine = {index for index, frame in enumerate(file.frames) if frame.name == name}
    counts = [sum(bool(mine & {*file.stacks[i]}) for i in thread.stacks) for thread in file.threads]
    return sum(counts)


def test_idle_threads_are_sampled_where_that_is_asked_for(control: Control) -> None:
    """Then each thread is in each sample; others are in some: py-spy wakes it to look at it."""
    control.call(fall_asleep)
    seen = []
    for options in ({}, {"idle": True}):
        backend = PySpyBackend(rate_hz=100, options=options)
        raw = recorded(control, backend, burn_scheduler_cpu, 0.3)
        threads = read_speedscope(raw.content).threads
        names = ("MainThread", "schedprof-parent", "nap")
        seen.append(
            {sum(len(one.stacks) for one in threads if name in one.thread) for name in names}
        )
    control.call(wake)
    assert len(seen[0]) > len(seen[1]) == 1


def fall_asleep(dask_scheduler: Any = None) -> None:
    import threading

    over = dask_scheduler.nap_is_over = threading.Event()
    threading.Thread(target=over.wait, name="nap").start()


def wake(dask_scheduler: Any = None) -> None:
    dask_scheduler.nap_is_over.set()
    del dask_scheduler.nap_is_over


def test_py_spy_gets_whole_rates_only() -> None:
    assert PySpyBackend(rate_hz=99.7, options={}).settings["rate_hz"] == 100.0


@pytest.mark.slow
def test_rate_that_pyspy_cannot_keep_is_told_with_one_that_it_can(control: Control) -> None:
    recording = PySpyBackend(rate_hz=100_000, options={}).start(control, timeout_s=200)
    for _ in range(5):
        control.call(burn_scheduler_cpu, 0.3)
    raw = recording.stop(timeout_s=60)
    (warning,) = [text for text in raw.warnings if "s behind: of 100000 samples per second" in text]
    assert raw.doubt.startswith(warning)
    rate = re.search(r"keeps up with about (\d+) here; set rate=\1 .*=\1, or try", warning)
    assert rate
    assert 1 <= int(rate[1]) < 20_000


@pytest.mark.parametrize(
    ("rate", "late", "late_at", "samples", "cpu", "kept"),
    [
        (250, 2.0, 4.0, 500, 3.0, 125),
        (100_000, 1.99, 2.0, 300, 1.5, 200),  # 500, by a difference of two like times
        (250, 2.0, 4.0, 3, 0.001, 125),  # the scheduler was idle
        (250, 4.0, 4.0, 0, 3.0, 1),
    ],
)
def test_rate_that_pyspy_keeps_up_with(
    rate: float, late: float, late_at: float, samples: int, cpu: float, kept: float
) -> None:
    log = f"{late}s behind in sampling, results may be inaccurate\nSamples: {samples} Errors: 0"
    answer = {"log": log, "late_at": late_at, "cpu": cpu}
    assert pyspy.kept_hz(rate, answer) == pytest.approx(kept)


BEACON = '{"shared": {"frames": [{"name": "beacon", "file": "%s", "line": 3}]}, "profiles": []}'


def test_function_that_bears_the_proofs_name_is_no_proof(control: Control) -> None:
    recording: Any = PySpyBackend(rate_hz=100, options={}).start(control, timeout_s=200)
    recording.verify((BEACON % agent.__file__).encode())
    with pytest.raises(RecordingError, match="does not hold the sample that proved"):
        recording.verify((BEACON % "/home/lighthouse/pyspy.py").encode())
    recording.abandon(timeout_s=200)


def collect(dask_scheduler: Any = None) -> None:
    import gc
    import time

    held = [{number: [number]} for number in range(50_000)]
    end = time.process_time() + 0.6
    while time.process_time() < end:
        gc.collect()
    del held


def verdict_on_collector(control: Control, options: dict[str, object]) -> LimitResult:
    backend = PySpyBackend(rate_hz=200, options=options)
    raw = recorded(control, backend, collect)
    profile = backend.read(raw.content, control.name_places)
    grounds = shares_of([[profile]], drift=backend.drift)
    return judge(parse_limit("share(@gc) <= 10%"), grounds, [])


@pytest.mark.slow
def test_collector_is_judged_where_it_is_seen(control: Control) -> None:
    result = verdict_on_collector(control, {"native": True})
    is_seen = holds(b"gc_collect_main")
    assert result.verdict is (Verdict.FAIL if is_seen else Verdict.INCONCLUSIVE)


def test_collector_that_is_not_seen_is_not_judged(control: Control) -> None:
    result = verdict_on_collector(control, {})
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "or the option native with a Python" in result.note


def test_file_comes_back_whole_in_pieces_with_qualified_names(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "CHUNK_BYTES", 1000)
    backend = PySpyBackend(rate_hz=200, options={})
    content = recorded(control, backend, burn_scheduler_cpu, 0.3).content
    assert len(content) > 3000
    assert json.loads(content)["profiles"]
    names = {n for stack in backend.read(content, control.name_places).stacks for n in stack}
    assert "asyncio.base_events:BaseEventLoop._run_once" in names
    assert "distributed.core:Server._handle_comm" in names


@pytest.mark.slow
def test_pyspy_that_does_not_end_is_killed_and_the_scheduler_goes_on(
    cluster: LocalProcesses, control: Control
) -> None:
    """A stopped process reacts to neither SIGINT nor SIGTERM."""
    recording = PySpyBackend(rate_hz=100, options={}).start(control, timeout_s=200)
    profiler = profiler_of(cluster)
    profiler.suspend()
    with pytest.raises(RecordingError, match=r"did not end within|lay stopped"):
        recording.stop(timeout_s=0.5)
    assert not profiler.is_running()
    control.call(burn_scheduler_cpu, 0.3)
    assert psutil.Process(cluster.pid).status() != psutil.STATUS_STOPPED


@pytest.mark.slow
def test_scheduler_that_is_left_stopped_is_freed_by_the_watchdog(
    temporary: Path, own_cluster: LocalProcesses, hardened: Control
) -> None:
    """Until then, neither the agent nor anything else in the scheduler can run."""
    backend = PySpyBackend(rate_hz=1000, options={"native": True})
    recording = backend.start(hardened, timeout_s=200)
    stop_while_it_holds(own_cluster)
    with pytest.raises(RecordingError, match="lay stopped for seconds; py-spy was killed"):
        recording.stop(timeout_s=200)
    hardened.call(burn_scheduler_cpu, 0.3)
    assert not psutil.Process(own_cluster.pid).children()
    assert not list(temporary.glob("schedprof-*"))


ENDS_WHEN_ASKED_TWICE = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
for state in ("at work", "asked"):
    print(state, flush=True)
    signal.sigwait({signal.SIGINT})
"""


def child(program: str = ENDS_WHEN_ASKED_TWICE) -> ChildRecording:
    """A recording whose profiler is this program, of which it has printed its first line."""
    recording = ChildRecording("")
    recording.spawn([sys.executable, "-I", "-S", "-c", program], {})
    wait_for_log(recording, b"at work")
    return recording


def wait_for_log(recording: ChildRecording, text: bytes) -> None:
    def has_text() -> bool:
        recording.listen()
        return text in recording.log

    wait_for(has_text, f"{text!r} in the log")


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_stop_that_is_interrupted_in_the_tests_own_process_can_be_ended() -> None:
    """The event loop waits for py-spy's end then, and nobody goes on with the coroutine."""
    holder, recording = OwnProcess(), child()
    recordings.keep(holder, recording)

    async def stop() -> None:
        asyncio.get_running_loop().call_soon(interrupt)
        await recordings.stop(recording.token, 200, dask_scheduler=holder)

    with pytest.raises(KeyboardInterrupt):
        complete(stop())
    wait_for_log(recording, b"asked")
    complete(asyncio.wait_for(recordings.end_all("", dask_scheduler=holder), 100))
    assert recording.profiler.returncode == 0
    assert recordings.under_way(holder) == []


def test_a_profiler_that_ends_leaves_another_one_its_permission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    permissions: list[bool] = []

    def allow_tracing(by_descendants: bool) -> None:  # few kernels restrict it, and none tells
        permissions.append(by_descendants)

    monkeypatch.setattr(recordings, "allow_tracing", allow_tracing)
    first, second = (child(ENDS_WHEN_ASKED_TWICE.replace(', "asked"', ",")) for _ in range(2))
    for recording, is_allowed in ((first, True), (second, False)):
        asyncio.run(recording.end(200))
        assert permissions[-1] is is_allowed
        recording.remove()
        assert permissions[-1] is is_allowed
        assert recording.profiler.returncode == 0


def stop_while_it_holds(cluster: LocalProcesses) -> None:
    """Stop py-spy at a moment when it has stopped the scheduler."""
    scheduler, profiler = psutil.Process(cluster.pid), profiler_of(cluster)
    stopped = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)

    def holds() -> bool:
        profiler.suspend()
        time.sleep(0.01)
        if scheduler.status() in stopped:
            return True
        profiler.resume()
        return False

    wait_for(holds, "py-spy to hold the scheduler")


def watchdog_of(cluster: LocalProcesses) -> psutil.Process:
    (watchdog,) = [
        child for child in psutil.Process(cluster.pid).children() if "-S" in child.cmdline()
    ]
    return watchdog


@pytest.mark.slow
def test_watchdog_holds_nothing_of_the_schedulers_open_and_is_killed_if_it_does_not_answer(
    cluster: LocalProcesses, control: Control
) -> None:
    recording = PySpyBackend(rate_hz=100, options={}).start(control, timeout_s=200)
    watchdog = watchdog_of(cluster)
    # Otherwise, whoever reads a session's output to its end would wait for the watchdog.
    places = Path(f"/proc/{watchdog.pid}/fd")
    assert [os.readlink(places / number) for number in "12"] == ["/dev/null"] * 2
    watchdog.suspend()
    raw = recording.stop(timeout_s=200)
    warnings = [text for text in raw.warnings if "behind" not in text]  # slow machines add those
    assert warnings == ["py-spy's watchdog did not answer and was killed"]
    assert not watchdog.is_running()
    control.call(burn_scheduler_cpu, 0.3)


def test_recording_has_no_file_that_could_be_left(
    temporary: Path, own_cluster: LocalProcesses
) -> None:
    """Though its watchdog was killed and its client is gone."""
    with Control(own_cluster.address) as control:
        PySpyBackend(rate_hz=100, options={}).start(control, timeout_s=200)
        watchdog_of(own_cluster).kill()
        assert not list(temporary.glob("schedprof-*/profile"))
    own_cluster.close()
    assert not list(temporary.iterdir())


def test_warnings_and_verdicts_on_pyspys_own_words() -> None:
    """py-spy reports failed and late samples only on its standard error."""
    assert pyspy.quality("Samples: 90 Errors: 10") == ["py-spy failed at 10 of 100 samples"]
    assert pyspy.quality("Samples: 99 Errors: 1") == []
    with pytest.raises(RecordingError, match="failed at 60 of 100 samples"):
        pyspy.quality("Samples: 40 Errors: 60")


def seen_beside(work: Callable[[threading.Event], object], times: int) -> list[tuple[int, bool]]:
    """What so many beacons saw beside a thread that does this work until the event is set."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    seen = [agent.watched_beacon(agent.BEACON_S) for _ in range(times)]
    over.set()
    thread.join()
    return seen


@pytest.mark.skipif(not agent.COUNTS_HOLDS, reason="this system does not count stops of a thread")
def test_turns_of_another_thread_are_not_taken_for_stops_by_py_spy() -> None:
    def work(over: threading.Event) -> None:
        while not over.is_set():
            sum(range(1000))

    seen = seen_beside(work, times=200)
    assert sum(stops for stops, _ in seen) > agent.TICKS
    assert sum(stops for stops, is_sure in seen if is_sure) < agent.TICKS


def test_idle_threads_do_not_delay_the_proof() -> None:
    """Threads that wait, such as the pools of earlier tests, cannot take the interpreter."""
    seen = seen_beside(threading.Event.wait, times=50)
    assert sum(is_sure for _, is_sure in seen) > 25
