"""Tests of evidence from workers, against the live memory sampler, task stream and logs."""

from __future__ import annotations

import re
from collections import Counter, deque
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dask.config
import msgspec
import pytest
from distributed import Scheduler, Worker, wait
from witness import opened

from pytest_schedprof.agent import instruments
from pytest_schedprof.agent.instruments import CYCLE, SAMPLER
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.control.control import Control
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceRegistry,
    EvidenceUnavailableError,
    ObservedTest,
)
from pytest_schedprof.evidence.workers import FORGOTTEN
from pytest_schedprof.model.evidence import (
    MemorySamples,
    TaskStream,
    WorkerProfile,
    WorkerProfiles,
    WorkerTransfers,
)
from pytest_schedprof.model.metric import SAMPLED

SVG = "{http://www.w3.org/2000/svg}"
KINDS = ("span", "report", "memory", "tasks", "transfers", "workers")


OFTEN: dict[str, object] = {"interval": "2ms", "cycle": 0.1}


def before(number: int) -> bytes:
    """Work like `burn`, before the test begins."""
    return burn(number)


def burn(number: int) -> bytes:
    import time

    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    return bytes(100_000 + number)


def join(left: bytes, right: bytes) -> int:
    return len(left) + len(right)


def fail(value: object) -> None:
    raise ValueError("as it should")


@pytest.fixture(scope="module")
def evidence() -> Any:
    """Evidence of each kind from two body runs on one scheduler, and the scheduler's own data."""
    with opened("local") as scheduler:
        wait(scheduler.client.map(before, range(4), pure=False))
        test = ObservedTest("test_it[<b>]", scheduler, options={"workers": OFTEN})
        intervals = scheduler.client.run(intervals_of)
        kinds = {name: EvidenceRegistry().load(name)(test) for name in KINDS}
        scheduler.client.run_on_scheduler(note_samples)
        for number in (1, 2):
            takes = [kind.around(number) for kind in kinds.values()]
            for take in takes:
                take.__enter__()
            work(scheduler)
            live = scheduler.client.run_on_scheduler(stream_of)  # continues over both body runs
            for take in reversed(takes):
                take.__exit__(None, None, None)
        logs = scheduler.client.run(logs_of)
        brought = {name: kind.bring(()) for name, kind in kinds.items()}
        for kind in kinds.values():
            kind.close()
        assert scheduler.client.run(intervals_of) == intervals
        plugins = scheduler.client.run_on_scheduler(plugins_of)
        samples = scheduler.client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.noted)
        yield brought, live, logs, samples, plugins


def work(scheduler: SchedulerUnderTest) -> None:
    """Make each worker burn CPU and send its results to the other."""
    client: Any = scheduler.client
    first, second = scheduler.workers
    left = client.map(burn, range(3), workers=[first], pure=False)
    right = client.map(burn, range(3), workers=[second], pure=False)
    wait([*client.map(join, left, right, pure=False), client.submit(fail, left[0], pure=False)])


def note_samples(dask_scheduler: Any) -> None:
    """Record what dask's memory samplers return."""
    stop, dask_scheduler.noted = dask_scheduler.handlers["memory_sampler_stop"], []

    def noting(key: str) -> Any:
        dask_scheduler.noted.append(stop(key=key))
        return dask_scheduler.noted[-1]

    dask_scheduler.handlers["memory_sampler_stop"] = noting


def stream_of(dask_scheduler: Scheduler) -> list[Any]:
    plugin: Any = dask_scheduler.plugins["task-stream"]
    return list(plugin.buffer)


def plugins_of(dask_scheduler: Scheduler) -> list[str]:
    return list(dask_scheduler.plugins)


def intervals_of(dask_worker: Worker) -> list[float]:
    return [dask_worker.periodic_callbacks[name].callback_time for name in (SAMPLER, CYCLE)]


def logs_of(dask_worker: Worker) -> dict[str, Any]:
    return {
        "incoming": list(dask_worker.transfer_incoming_log),
        "outgoing": list(dask_worker.transfer_outgoing_log),
    }


def read(brought: Brought, file: str, kind: Any) -> Any:
    return msgspec.json.decode(brought.files[file], type=kind)


@pytest.mark.slow
def test_memory_is_that_of_the_sampler(evidence: Any) -> None:
    content = read(evidence[0]["memory"], "memory.json", list[MemorySamples])
    assert {(one.take, one.measure) for one in content} == {
        (take, measure) for take in (1, 2) for measure in SAMPLED
    }
    assert [list(one.samples) for one in content] == [
        [tuple(sample) for sample in samples] for samples in evidence[3]
    ]
    processes = [held for one in content if one.measure == "process" for _, held in one.samples]
    assert min(processes) > 1e6


def test_tasks_are_those_of_the_stream_with_five_kinds_of_time(evidence: Any) -> None:
    stream = read(evidence[0]["tasks"], "tasks.json", TaskStream)
    assert [task.take for task in stream.tasks] == [1] * 10 + [2] * 10
    for task, live in zip(stream.tasks, evidence[1], strict=True):
        assert task.key == str(live["key"])
        assert task.worker == live["worker"]
        assert task.thread == live["thread"]
        assert task.has_failed == (live["status"] == "error")
        assert [(t.action, t.start, t.stop) for t in task.times] == [
            (t["action"], t["start"], t["stop"]) for t in live["startstops"]
        ]
    burned = [task for task in stream.tasks if task.key.startswith("burn")]
    assert {task.nbytes // 1000 for task in burned} == {100}
    assert {task.type for task in burned} == {"bytes"}
    assert sum(task.has_failed for task in stream.tasks) == 2
    seconds = stream.seconds
    waits = [t for task in stream.tasks for t in task.times if t.action == "transfer"]
    assert seconds.gathering == pytest.approx(sum(t.stop - t.start for t in waits))
    assert seconds.gathering > 0
    assert 12 * 0.05 < seconds.execution < 12 * 0.05 * 1000  # seconds, whatever they waited for
    assert seconds.transfer > 0
    assert seconds.serialisation > 0
    assert seconds.disk == 0


def test_transfers_are_those_of_the_logs(evidence: Any) -> None:
    workers = read(evidence[0]["transfers"], "transfers.json", list[WorkerTransfers])
    assert {worker.address for worker in workers} == set(evidence[2])
    assert sum(len(worker.incoming) for worker in workers) >= 2
    for worker in workers:
        for side in ("incoming", "outgoing"):
            logged = evidence[2][worker.address][side]
            for ours, theirs in zip(getattr(worker, side), logged, strict=True):
                times = ours.start, ours.stop, ours.duration
                assert times == (theirs["start"], theirs["stop"], theirs["duration"])
                assert ours.peer == theirs["who"]
                assert ours.keys == {str(key): size for key, size in theirs["keys"].items()}
                assert ours.bytes == theirs["total"]
                assert ours.compressed_bytes == theirs.get("compressed")
                assert ours.bandwidth == theirs["bandwidth"]
    assert any(sent.bytes > 100_000 for worker in workers for sent in worker.outgoing)
    names = {worker.address: worker.name for worker in workers}
    pairs = {(names[one.peer], worker.name) for worker in workers for one in worker.incoming}
    picture = ElementTree.fromstring(evidence[0]["transfers"].files["transfers.svg"])
    titles = [str(title.text) for title in picture.iter(f"{SVG}title")]
    drawn = {title.partition(":")[0] for title in titles}
    assert drawn == {f"{sender} to {receiver}" for sender, receiver in pairs}


def test_profiles_are_of_what_workers_ran_by_prefix_and_over_time(evidence: Any) -> None:
    brought = evidence[0]["workers"]
    doings = read(brought, "workers.json", WorkerProfiles)
    burning = [calls for child in doings.children for calls in walk(child)]
    burned = sum(call.samples for call in burning if call.description.startswith("burn ("))
    assert burned > 0.5 * doings.prefixes["burn"].samples
    assert b"burn (" in brought.files["workers.svg"]
    assert (doings.interval_s, doings.cycle_s) == (0.002, 0.1)
    assert set(doings.prefixes) <= {"burn", "join", "fail"}  # not what ran before
    samples = {name: profile.samples for name, profile in doings.prefixes.items()}
    assert [*samples.values()] == sorted(samples.values(), reverse=True)
    assert sum(samples.values()) == doings.samples
    over_time: Counter[str] = Counter()
    for stretch in doings.slices:
        over_time.update(stretch.samples)
        assert doings.begun <= stretch.start <= stretch.stop
    assert over_time == samples
    assert {stretch.worker for stretch in doings.slices} == {"0", "1"}
    picture = ElementTree.fromstring(brought.files["workers.timeline.svg"])
    texts = [str(text.text) for text in picture.iter(f"{SVG}text")]
    for number, (name, count) in enumerate(samples.items(), start=1):
        assert f"{number}  {name}: {count} samples" in texts


def walk(profile: WorkerProfile) -> list[WorkerProfile]:
    return [profile, *(below for child in profile.children for below in walk(child))]


def test_pages_are_whole_and_nothing_is_left_on_the_scheduler(evidence: Any) -> None:
    for name in ("report", "memory", "tasks"):
        page = evidence[0][name].files[f"{name}.html"]
        assert page.rstrip().endswith(b"</html>")
        assert b"test_it[<b>]" not in page
        assert not re.search(rb"<script[^>]*src=|<link[^>]*stylesheet", page)
    assert "task-stream" not in evidence[4]


@pytest.mark.slow
def test_a_client_that_is_gone_takes_its_task_stream_along() -> None:
    with opened("local") as scheduler:
        with Control(scheduler.address) as gone:
            gone.call(instruments.watch, gone.call(instruments.hold, gone.client_id))
            assert "task-stream" in scheduler.client.run_on_scheduler(plugins_of)
        while "task-stream" in scheduler.client.run_on_scheduler(plugins_of):
            pass


async def come(scheduler: str, directory: str) -> list[Worker]:
    options: Any = {"host": "127.0.0.1", "local_directory": directory, "memory_limit": 0}
    return [await Worker(scheduler, name=name, nthreads=1, **options) for name in ("0", "1")]


async def leave(workers: list[Worker]) -> None:
    for worker in workers:
        await worker.close()


@pytest.mark.slow
def test_workers_that_come_within_the_body_are_seen(tmp_path: Path) -> None:
    with opened("local", 0) as scheduler:
        client: Any = scheduler.client
        test = ObservedTest("test_it", scheduler)
        transfers, doings = (
            EvidenceRegistry().load(name)(test) for name in ("transfers", "workers")
        )
        often = {"distributed.worker.profile.interval": "2ms"}
        with dask.config.set(often), transfers.around(1):
            workers = client.sync(come, scheduler.address, str(tmp_path))
            work(scheduler)
        (sizes, numbers) = transfers.bring(()).figures
        profiles = read(doings.bring(()), "workers.json", WorkerProfiles)
        client.sync(leave, workers)
    assert numbers.by_run[1] >= 2
    assert sizes.by_run[1] > 100_000
    assert profiles.begun == min(stretch.start for stretch in profiles.slices)


def keep_one(dask_worker: Worker) -> None:
    """Keep one profile, which no other one replaces when the tasks have ended."""
    dask_worker.periodic_callbacks["profile-cycle"].stop()
    dask_worker.profile_keys_history = deque(dask_worker.profile_keys_history, maxlen=1)


@pytest.mark.slow
def test_it_says_if_workers_forgot_profiles() -> None:
    with opened("local") as scheduler:
        test = ObservedTest("test_it", scheduler, options={"workers": OFTEN})
        kind = EvidenceRegistry().load("workers")(test)
        scheduler.client.run(keep_one)
        first, _ = scheduler.workers
        wait(scheduler.client.map(burn, range(8), workers=[first], pure=False))
        brought = kind.bring(())
        assert brought.notes == (FORGOTTEN,)
        for stretch in read(brought, "workers.json", WorkerProfiles).slices:
            assert stretch.start <= stretch.stop
        kind = EvidenceRegistry().load("workers")(test)
        scheduler.client.run(keep_one)
        wait(scheduler.client.map(burn, range(2), pure=False))
        scheduler.client.run(lambda dask_worker: dask_worker.cycle_profile())
        with pytest.raises(EvidenceUnavailableError, match="hold no sample: workers keep no more"):
            kind.bring(())
