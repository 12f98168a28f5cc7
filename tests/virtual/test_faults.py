"""Tests of what happens to workers in virtual time, and of what is modelled of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from at_work import Make, by_value, inc, making, now
from distributed import Client, Future, metrics, wait
from distributed.comm.core import CommClosedError
from distributed.scheduler import NoValidWorkerError
from hypothesis import given
from hypothesis import strategies as st
from support import Project

from pytest_schedprof.agent import decisions
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.control.control import Control
from pytest_schedprof.formats.counted import read_decisions
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.virtual.lines import Link, send
from pytest_schedprof.virtual.loop import RESOLUTION_S, rounded

TTL_S = 60
"""How long a scheduler waits for a heartbeat; by default it is five times as long."""

TTL = {"config.distributed.scheduler.worker-ttl": f"{TTL_S}s"}


@pytest.fixture
def make() -> Iterator[Make]:
    with making() as make:
        yield make


def seconds_for(client: Client, futures: list[Future[Any]]) -> float:
    start = now()
    with client.as_current():
        wait(futures)
    assert {future.status for future in futures} == {"finished"}
    return now() - start


def plan(control: Control, fault: str, worker: str, lasting: float | None = None) -> None:
    assert control.call(decisions.plan, 0.5, fault, [worker], lasting) == ""


def test_a_slow_worker_takes_ten_times_as_long(make: Make) -> None:
    client, control = make(1)
    plan(control, "slow", "0", 20.0)
    futures = client.map(inc, range(4), pure=False)
    # The first has begun before, the second and third are slow, and the last is fast again.
    assert 22 <= seconds_for(client, futures) < 22.2


@by_value
def status_of(address: str, dask_scheduler: Any = None) -> str:
    return str(dask_scheduler.workers[address].status.name)


def test_of_pauses_that_overlap_the_last_one_ends(make: Make) -> None:
    client, control = make(2)
    plan(control, "pause", "0", 10.0)
    plan(control, "pause", "0", 1.0)
    client.sync(asyncio.sleep, 5)
    assert client.run_on_scheduler(status_of, "inproc://worker-0") == "paused"
    client.sync(asyncio.sleep, 6)
    assert client.run_on_scheduler(status_of, "inproc://worker-0") == "running"


def test_a_pause_ends_also_if_the_test_wakes_up_a_step_of_the_clock_before(make: Make) -> None:
    """Times that are sums in another order differ by their rounding, and are one moment."""
    client, control = make(1)
    start = metrics.time()
    lasting, nap = next(
        (tenths / 10, hundredths / 100)
        for tenths in range(1, 10)
        for hundredths in range(1, 50)
        if 0
        < rounded(rounded(start + 0.5) + tenths / 10)
        - (start + hundredths / 100 + (0.5 + tenths / 10 - hundredths / 100))
        < RESOLUTION_S
    )
    plan(control, "pause", "0", lasting)
    for seconds in (nap, 0.5 + lasting - nap, 1.0):
        client.sync(asyncio.sleep, seconds)
    assert client.run_on_scheduler(status_of, "inproc://worker-0") == "running"


def test_a_pause_does_not_take_back_a_retirement(make: Make) -> None:
    client, control = make(2, nbytes="1GB")
    futures = client.map(inc, range(4), pure=False)
    wait(futures)
    plan(control, "pause", "0", 1.0)
    client.retire_workers(["inproc://worker-0"])
    assert {*client.nthreads()} == {"inproc://worker-1"}


def test_a_partition_delays_messages_and_loses_nothing(make: Make) -> None:
    client, control = make(1)
    plan(control, "partition", "0", 10.0)
    futures = client.map(inc, range(4), pure=False)
    assert 10.5 <= seconds_for(client, futures) < 14.2


def test_what_is_late_by_a_partition_arrives_however_its_end_is_rounded(make: Make) -> None:
    client, control = make(2, bandwidth="10MB")
    (root,) = client.scatter([bytes(10_000_000)], workers=["inproc://worker-0"])
    start = metrics.time()
    # A timer for its end is a step of the clock before it.
    after = next(
        hundredths / 100
        for hundredths in range(1, 50)
        if (end := rounded(start + hundredths / 100) + 1.3) > rounded(end)
    )
    assert control.call(decisions.plan, after, "partition", ["0"], 1.3) == ""
    user = client.submit(inc, root, workers=["inproc://worker-1"], pure=False)
    assert 2.3 <= seconds_for(client, [user]) < 2.9, "the task takes a second of it"


def test_no_copy_comes_from_a_worker_that_is_cut_off(make: Make) -> None:
    client, control = make(2)
    data = client.scatter([1], workers=["inproc://worker-0"])
    plan(control, "partition", "0", 10.0)
    client.sync(asyncio.sleep, 1)
    start = now()
    client.replicate(data, workers=["inproc://worker-1"])
    assert 9 <= now() - start < 10


def test_a_request_waits_for_a_worker_that_is_cut_off_but_not_for_ever(make: Make) -> None:
    client, control = make(2)
    plan(control, "partition", "0", 100.0)
    seconds_for(client, [client.submit(inc, 0, pure=False, workers="inproc://worker-1")])
    start = now()
    with pytest.raises(CommClosedError):
        client.run(inc, 1, workers=["inproc://worker-0"])
    assert 30 <= now() - start < 31
    seconds_for(client, [client.submit(inc, 0, pure=False, workers="inproc://worker-0")])
    assert client.run(inc, 1, workers=["inproc://worker-0"]) == {"inproc://worker-0": 1}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["partition", "silence"])
def test_a_worker_that_sends_no_heartbeats_is_lost_and_comes_again(make: Make, fault: str) -> None:
    client, control = make(2, **TTL)
    plan(control, fault, "0", TTL_S + 100.0)
    done = client.map(inc, range(4), pure=False)
    seconds_for(client, [client.submit(inc, done, pure=False)])
    lost = client.submit(inc, 0, pure=False, workers="inproc://worker-0", allow_other_workers=True)
    assert seconds_for(client, [lost]) < TTL_S + 100
    client.submit(inc, 0, pure=False).result()
    assert len(client.nthreads()) >= 1
    later = client.map(inc, range(8), pure=False)
    assert seconds_for(client, later) < 2 * TTL_S


@pytest.mark.slow
def test_a_worker_that_is_cut_off_for_ever_is_done_without(make: Make) -> None:
    client, control = make(2, **TTL)
    plan(control, "partition", "0")
    futures = client.map(inc, range(20), pure=False)
    # The scheduler looks for lost workers once in that time.
    assert TTL_S < seconds_for(client, futures) < 2 * TTL_S + 20
    assert len(client.nthreads()) == 1


def count_heartbeats(dask_scheduler: Any) -> None:
    real, beats = dask_scheduler.heartbeat_worker, dict.fromkeys(dask_scheduler.workers, 0)

    def counted(*, address: str, **message: Any) -> Any:
        beats[address] = beats.get(address, 0) + 1
        return real(address=address, **message)

    dask_scheduler.heartbeat_worker, dask_scheduler.beats = counted, beats


def beats_of(dask_scheduler: Any) -> Any:
    return dask_scheduler.beats


def test_workers_that_have_nothing_to_tell_rest_and_are_not_lost(make: Make) -> None:
    client, control = make(20, duration="1h", **TTL)
    client.run_on_scheduler(count_heartbeats)
    busy = {"workers": "inproc://worker-0", "pure": False}
    assert seconds_for(client, [client.submit(inc, 0, **busy)]) > 3600
    before = client.run_on_scheduler(beats_of)
    assert len(client.nthreads()) == 20
    assert before.pop("inproc://worker-0") >= 1800
    assert max(before.values()) < 60
    plan(control, "silence", "7", 3.0 * TTL_S)
    seconds_for(
        client,
        [client.submit(inc, 0, **busy), client.submit(inc, 0, workers=["inproc://worker-5"])],
    )
    after = client.run_on_scheduler(beats_of)
    assert {"inproc://worker-7-1", "inproc://worker-5"} <= {*client.nthreads()}
    assert after["inproc://worker-5"] - before["inproc://worker-5"] >= 1800


def test_several_workers_arrive_at_once(make: Make) -> None:
    client, control = make(1)
    names = [f"{number}" for number in range(1, 100)]
    assert control.call(decisions.plan, 0.5, "arrive", names, None) == ""
    assert seconds_for(client, client.map(inc, range(400), pure=False)) < 8


def test_a_worker_that_is_to_arrive_can_be_planned_to_leave(make: Make) -> None:
    client, control = make(1)
    plan(control, "arrive", "7")
    assert control.call(decisions.plan, 1.0, "kill", ["7"], None) == ""
    client.sync(asyncio.sleep, 0.8)
    assert len(client.nthreads()) == 2
    client.sync(asyncio.sleep, 1)
    assert {*client.nthreads()} == {"inproc://worker-0"}


def test_who_arrives_twice_at_one_time_arrives_once(make: Make) -> None:
    client, control = make(1)
    assert control.call(decisions.plan, 0.5, "arrive", ["7", "7"], None) == ""
    assert control.call(decisions.plan, 1.0, "kill", ["7"], None) == ""
    assert control.call(decisions.plan, 1.5, "arrive", ["7"], None) == ""
    client.sync(asyncio.sleep, 2)
    assert {*client.nthreads()} == {"inproc://worker-0", "inproc://worker-7-1"}


@contextmanager
def deciding(control: Control) -> Iterator[dict[str, float]]:
    """Yield what is filled at the end with the figures of what was decided in the body."""
    backend = BackendRegistry().make("decisions", rate_hz=100, options={})
    recorder = Recorder(control, [backend], 60)
    figures: dict[str, float] = {}
    with recorder.round():
        yield figures
    ((segment,),) = recorder.rounds
    figures.update(read_decisions(segment.raw["decisions"].content).figures)


def test_a_killed_worker_is_no_idle_one_when_data_comes_that_was_on_its_way(make: Make) -> None:
    client, control = make(2, bandwidth="10MB")
    (root,) = client.scatter([bytes(10_000_000)], workers=["inproc://worker-0"])
    with deciding(control) as figures:
        plan(control, "kill", "1")
        user = client.submit(
            inc, root, workers=["inproc://worker-1"], allow_other_workers=True, pure=False
        )
        wait([user, *client.map(inc, range(10), workers=["inproc://worker-0"], pure=False)])
    assert 0.4 < figures["idle"] < 0.6, "until it is killed"


@pytest.mark.slow
def test_transfers_share_the_link_of_their_sender(make: Make) -> None:
    client, _ = make(4, bandwidth="10MB")
    addresses = [f"inproc://worker-{number}" for number in range(4)]
    (root,) = client.scatter([bytes(10_000_000)], workers=addresses[:1])
    users = [client.submit(inc, root, workers=to, pure=False) for to in addresses[1:]]
    # Each transfer takes a second; the third one waits for two others, then its task runs.
    assert 4 <= seconds_for(client, users) < 4.2


def test_copies_take_the_links_as_transfers_do(make: Make) -> None:
    client, control = make(3, bandwidth="10MB")
    data = client.scatter([bytes(10_000_000)] * 2, workers=["inproc://worker-0"], hash=False)
    with deciding(control) as figures:
        start = now()
        client.replicate(data, workers=["inproc://worker-1"])
        assert 2 <= now() - start < 2.2
    assert figures["transferred"] == sum(client.nbytes([future.key for future in data]).values())


def test_a_copy_that_takes_longer_than_a_stuck_cluster_is_watched(make: Make) -> None:
    client, _ = make(2, bandwidth="1MB", nbytes="200MB")
    data = client.map(inc, range(1), pure=False)
    wait(data)
    start = now()
    client.replicate(data, n=2)
    assert 200 <= now() - start < 210


def test_a_graph_gives_the_scheduler_its_time_also_after_a_long_sleep(make: Make) -> None:
    client, _ = make(1, **{"config.distributed.scheduler.no-workers-timeout": "150s"})
    client.sync(asyncio.sleep, 100.0)
    start = now()
    with pytest.raises(NoValidWorkerError):
        client.submit(inc, 0, resources={"none": 1}).result()
    assert 150 <= now() - start < 160


@pytest.mark.slow
def test_results_on_disk_take_time(make: Make) -> None:
    options = {"nbytes": "100MB", "memory_limit": "500MB", "duration": "10ms"}
    times = []
    for disk in ("free", "100MB"):
        client, _ = make(1, disk=disk, **options)
        roots = client.map(inc, range(10), pure=False)
        times.append(seconds_for(client, [client.submit(inc, root, pure=False) for root in roots]))
    assert times[0] < 1
    assert times[1] > 5  # of 2 GB at most 300 MB stay in memory


def test_each_worker_has_its_own_speed(make: Make) -> None:
    client, _ = make(8, speed="uniform(0.2, 1)")
    futures = [
        client.submit(inc, 0, workers=f"inproc://worker-{number}", pure=False)
        for number in range(8)
    ]
    assert 1.5 < seconds_for(client, futures) < 5.2


SEEDED = """
@pytest.mark.schedprof(cluster_options={"duration": "exponential(100ms)", "faults": "0.3",
    "config.distributed.scheduler.validate": "true",
    "config.distributed.scheduler.worker-ttl": "60s"}, seeds=2)
def test_faults(schedprof_scheduler):
    client = schedprof_scheduler.client
    xs = client.map(inc, range(40), pure=False)
    ys = [client.submit(sum, xs[i:i + 3], pure=False) for i in range(30)]
    wait(ys)

@pytest.mark.schedprof(cluster_options={"latency": "lognormal(2ms, 1)", "nbytes": "1MB"}, seeds=2)
def test_latencies(schedprof_scheduler):
    client = schedprof_scheduler.client
    xs = client.map(inc, range(20), key=[f"x-{n}" for n in range(20)])
    wait([client.submit(sum, xs[i:i + 3], key=f"y-{i}") for i in range(15)])
"""


@pytest.mark.slow
def test_faults_and_latencies_are_drawn_from_the_seed(project: Project) -> None:
    options = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=8")
    project.run_test(SEEDED, *options, "--schedprof-rounds=1", "--schedprof-save=main")
    again = project.run(*options, "--schedprof-rounds=1", "--schedprof-compare=main")
    again.assert_outcomes(passed=4)
    again.stdout.fnmatch_lines(["*decides the same*"])
    again.stdout.no_fnmatch_line("*another worker*")
    for test in ("latencies", "faults"):
        files = project.path.glob(f".schedprof/2*/tests/*{test}*/*.decisions.json")
        logs = [read_decisions(file.read_bytes()) for file in files]
        assert len(logs) == 4
        assert len({log.hash for log in logs}) == 2  # one for each seed
    assert all(log.figures["recomputed"] for log in logs)  # of the faults


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 10)), max_size=30))
def test_a_link_handles_one_transfer_after_another(
    transfers: list[tuple[int, int, float]],
) -> None:
    links = [Link() for _ in range(4)]
    arrivals = [send(links[one], links[other], 0.0, t) for one, other, t in transfers]
    for (one, other, t), arrival in zip(transfers, arrivals, strict=True):
        assert arrival >= t
        assert arrival <= max(links[one].sends_until, links[other].receives_until)
    for number, link in enumerate(links):
        sent = sum(t for one, _, t in transfers if one == number)
        assert link.sends_until == pytest.approx(sent) or not sent
