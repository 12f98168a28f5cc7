"""Tests of evidence from workers, against the live memory sampler, task stream and logs."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from distributed import Scheduler, Worker, wait
from witness import opened

from pytest_schedprof.agent.instruments import CYCLE, SAMPLER
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.errors import SettingsError
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
    WorkerDoings,
    WorkerProfile,
    WorkerTransfers,
)
from pytest_schedprof.model.metric import SAMPLED

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
def told() -> Any:
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
        yield brought, live, logs, scheduler.client.run_on_scheduler(samples_of), plugins


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


def samples_of(dask_scheduler: Any) -> Any:
    return dask_scheduler.noted


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
def test_memory_is_that_of_the_sampler(told: Any) -> None:
    found = read(told[0]["memory"], "memory.json", list[MemorySamples])
    assert {(each.take, each.measure) for each in found} == {
        (take, measure) for take in (1, 2) for measure in SAMPLED
    }
    assert [list(each.samples) for each in found] == [
        [tuple(sample) for sample in samples] for samples in told[3]
    ]
    assert all(
        held > 1e6 for each in found if each.measure == "process" for _, held in each.samples
    )


def test_tasks_are_those_of_the_stream(told: Any) -> None:
    stream = read(told[0]["tasks"], "tasks.json", TaskStream)
    assert [each.take for each in stream.tasks] == [1] * 10 + [2] * 10
    for each, live in zip(stream.tasks, told[1], strict=True):
        assert each.key == str(live["key"])
        assert each.worker == live["worker"]
        assert each.thread == live["thread"]
        assert each.has_failed == (live["status"] == "error")
        assert [(t.action, t.start, t.stop) for t in each.times] == [
            (t["action"], t["start"], t["stop"]) for t in live["startstops"]
        ]
    burned = [each for each in stream.tasks if each.key.startswith("burn")]
    assert {each.nbytes // 1000 for each in burned} == {100}
    assert {each.type for each in burned} == {"bytes"}
    assert sum(each.has_failed for each in stream.tasks) == 2


def test_five_kinds_of_time(told: Any) -> None:
    stream = read(told[0]["tasks"], "tasks.json", TaskStream)
    seconds = stream.seconds
    waits = [t for each in stream.tasks for t in each.times if t.action == "transfer"]
    assert seconds.gathering == pytest.approx(sum(t.stop - t.start for t in waits))
    assert seconds.gathering > 0
    assert 12 * 0.05 < seconds.execution < 12 * 0.05 * 20
    assert seconds.transfer > 0
    assert seconds.serialisation > 0
    assert seconds.disk == 0


def test_transfers_are_those_of_the_logs(told: Any) -> None:
    found = read(told[0]["transfers"], "transfers.json", list[WorkerTransfers])
    assert {each.address for each in found} == set(told[2])
    assert sum(len(each.incoming) for each in found) >= 2
    for each in found:
        for side in ("incoming", "outgoing"):
            logged = told[2][each.address][side]
            assert len(logged) == len(getattr(each, side))
            for ours, theirs in zip(getattr(each, side), logged, strict=True):
                assert (ours.start, ours.stop, ours.duration) == (
                    theirs["start"],
                    theirs["stop"],
                    theirs["duration"],
                )
                assert ours.peer == theirs["who"]
                assert ours.keys == {str(key): size for key, size in theirs["keys"].items()}
                assert ours.bytes == theirs["total"]
                assert ours.compressed_bytes == theirs.get("compressed")
                assert ours.bandwidth == theirs["bandwidth"]
    assert any(each.bytes > 100_000 for worker in found for each in worker.outgoing)
    names = {each.address: each.name for each in found}
    pairs = {(names[each.peer], one.name) for one in found for each in one.incoming}
    picture = ElementTree.fromstring(told[0]["transfers"].files["transfers.svg"])
    titles = [str(title.text) for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    drawn = {title.partition(":")[0] for title in titles}
    assert drawn == {f"{sender} to {receiver}" for sender, receiver in pairs}


def test_profile_shows_what_workers_ran(told: Any) -> None:
    brought = told[0]["workers"]
    found = read(brought, "workers.json", WorkerDoings)
    burning = [each for child in found.children for each in walk(child)]
    burned = sum(each.samples for each in burning if each.description.startswith("burn ("))
    assert burned > 0.5 * found.samples
    assert b"burn (" in brought.files["workers.svg"]
    assert (found.interval_s, found.cycle_s) == (0.002, 0.1)


def test_samples_are_those_of_the_test_by_prefix_and_over_time(told: Any) -> None:
    brought = told[0]["workers"]
    found = read(brought, "workers.json", WorkerDoings)
    assert set(found.prefixes) <= {"burn", "join", "fail"}  # not what ran before
    assert next(iter(found.prefixes)) == "burn"
    assert sum(each.samples for each in found.prefixes.values()) == found.samples
    over_time: Counter[str] = Counter()
    for each in found.slices:
        over_time.update(each.samples)
        assert found.begun <= each.start <= each.stop
    assert over_time == {name: each.samples for name, each in found.prefixes.items()}
    assert {each.worker for each in found.slices} == {"0", "1"}
    picture = ElementTree.fromstring(brought.files["workers.timeline.svg"])
    texts = [str(text.text) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert f"1  burn: {found.prefixes['burn'].samples} samples" in texts


def keep_one(dask_worker: Worker) -> None:
    """Keep one profile, which no other one replaces when the tasks have ended."""
    dask_worker.periodic_callbacks["profile-cycle"].stop()
    dask_worker.profile_keys_history = deque(dask_worker.profile_keys_history, maxlen=1)


@pytest.mark.slow
def test_profiles_that_workers_forgot_are_told() -> None:
    with opened("local") as scheduler:
        test = ObservedTest("test_it", scheduler, options={"workers": OFTEN})
        kind = EvidenceRegistry().load("workers")(test)
        scheduler.client.run(keep_one)
        first, _ = scheduler.workers
        wait(scheduler.client.map(burn, range(8), workers=[first], pure=False))
        brought = kind.bring(())
    assert brought.notes == (FORGOTTEN,)
    for each in read(brought, "workers.json", WorkerDoings).slices:
        assert each.start <= each.stop


@pytest.mark.slow
def test_it_is_told_if_workers_forgot_all_profiles() -> None:
    with opened("local") as scheduler:
        test = ObservedTest("test_it", scheduler, options={"workers": OFTEN})
        kind = EvidenceRegistry().load("workers")(test)
        scheduler.client.run(keep_one)
        wait(scheduler.client.map(burn, range(2), pure=False))
        scheduler.client.run(lambda dask_worker: dask_worker.cycle_profile())
        with pytest.raises(EvidenceUnavailableError, match="hold no sample: workers keep no more"):
            kind.bring(())


@pytest.mark.parametrize("name", ["interval", "cycle"])
def test_an_interval_of_zero_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"workers\.{name} must be above 0, got 0"):
        EvidenceRegistry().load("workers").read_options({name: 0})


def walk(profile: WorkerProfile) -> list[WorkerProfile]:
    return [profile, *(each for child in profile.children for each in walk(child))]


def test_report_and_pictures_are_whole_pages(told: Any) -> None:
    for name, file in (("report", "report"), ("memory", "memory"), ("tasks", "tasks")):
        page = told[0][name].files[f"{file}.html"]
        assert page.rstrip().endswith(b"</html>")
        assert b"test_it[<b>]" not in page
        assert not re.search(rb"<script[^>]*src=|<link[^>]*stylesheet", page)


def test_nothing_is_left_on_the_scheduler(told: Any) -> None:
    assert "task-stream" not in told[4]


@pytest.mark.slow
def test_hollow_workers_have_few_of_them(project: Any) -> None:
    body = """
@pytest.mark.schedprof(evidence="all", cluster="simulated", workers=4)
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""
    project.run_test(body, "--schedprof=cputime").assert_outcomes(passed=1)
    found = {each.kind: each for each in project.result().evidence}
    assert found["transfers"].missing == "hollow workers keep no log of transfers"
    assert found["span"].notes
    assert not found["tasks"].missing
    assert found["workers"].missing.startswith("workers have no profiles: they are hollow, or")
    assert not found["memory"].missing
