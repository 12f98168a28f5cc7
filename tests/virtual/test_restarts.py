"""Tests of a scheduler that is restarted: in virtual time, and beside a real one."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest
from at_work import Make, by_value, making
from distributed import Client, Lock, metrics, wait
from distributed.client import FuturesCancelledError
from support import Project

from pytest_schedprof.agent import decisions, facts, recordings
from pytest_schedprof.control.control import Control
from pytest_schedprof.virtual.loop import EPOCH

NAPS = [f"nap-{number}" for number in range(4)]
NAP_S = 5
"""Much longer than a busy machine takes to end a scheduler."""


@pytest.fixture
def make() -> Iterator[Make]:
    with making() as make:
        yield make


@by_value
def inc(x: Any) -> int:
    return 1


def now() -> float:
    return float(metrics.time() - EPOCH)


def plan_restart(control: Control, at: float = 0.5, lasting: float | None = None) -> None:
    assert control.call(decisions.plan, at, "restart", ["scheduler"], lasting) == ""


def error_of(call: Callable[[], Any]) -> list[str]:
    """The name of the error that a call raises, and what it says.

    `wait` names the futures in the order of a set, by hashes that differ from future to future.
    """
    with pytest.raises((CancelledError, FuturesCancelledError)) as raised:
        call()
    said = re.sub(r"<.* at 0x\w+>", "", str(raised.value))
    sorted_keys = re.sub(r"Futures: \[(.*)\]", lambda keys: str(sorted(keys[1].split(", "))), said)
    return [type(raised.value).__name__, sorted_keys]


def heard_by_user(client: Client, restart: Callable[[], Any]) -> list[Any]:
    """What a client hears whose scheduler is restarted while it waits."""
    done: Any = client.submit(str, 0, key="done")
    wait(done)
    under_way: list[Any] = client.map(time.sleep, [NAP_S] * 4, key=NAPS)
    restart()
    heard = [*error_of(lambda: wait(under_way)), *error_of(lambda: wait([done]))]
    heard += error_of(done.result)
    heard += [nap.status for nap in under_way]
    again: Any = client.submit(str, 1, pure=False)
    wait([again])
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [*heard, done.status, again.status, client.status, len(workers)]


class RealCluster:
    """A scheduler and a worker as `dask scheduler` and `dask worker` start them."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.orphans: list[subprocess.Popen[bytes]] = []
        self._start()

    def _start(self) -> None:
        run = [sys.executable, "-m", "dask"]
        place = ["--host", "127.0.0.1", "--port", self.port, "--dashboard-address", "127.0.0.1:0"]
        self.scheduler = subprocess.Popen([*run, "scheduler", *place])
        options = ["--nthreads=4", "--no-nanny", "--no-dashboard", "--host=127.0.0.1"]
        self.worker = subprocess.Popen([*run, "worker", self.address, *options])

    def restart(self) -> None:
        """Kill the scheduler, and start all again."""
        self.scheduler.kill()
        self.scheduler.wait(30)
        self.orphans.append(self.worker)
        self._start()

    def close(self) -> None:
        for worker in self.orphans:
            worker.wait(100)  # who started it must start it again
        for process in (self.worker, self.scheduler):
            process.kill()
            process.wait(30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_client_hears_what_it_hears_of_a_real_scheduler(make: Make) -> None:
    real = RealCluster()
    later = threading.Timer(0.5, real.restart)
    try:
        with Client(real.address, timeout=300, set_as_default=False) as client, client.as_current():
            of_real = heard_by_user(client, later.start)
    finally:
        later.cancel()
        if later.ident is not None:
            later.join()  # else it starts processes after the end
        real.close()
    client, control = make(1, duration=f"0.1s; nap: {NAP_S}s")
    with client.as_current():
        assert heard_by_user(client, lambda: plan_restart(control)) == of_real
    assert of_real[-3:] == ["finished", "running", 1]


def recorded(make: Make, seed: str) -> dict[str, Any]:
    """Figures and hash of a window in which the scheduler is restarted."""
    client, control = make(4, duration="exponential(1s)", seed=seed)
    opened = control.call(facts.open_window)
    start = control.call(decisions.start, control.client_id)
    plan_restart(control, 2.5)
    with pytest.raises(FuturesCancelledError):
        wait(client.map(inc, range(40), key=[f"x-{number}" for number in range(40)]))
    wait(client.map(inc, range(40), key=[f"x-{number}" for number in range(40)]))
    closed = control.call(facts.close_window)
    control.call(recordings.stop, start["token"], 10.0)
    log = json.loads(control.call(recordings.fetch, start["token"], 0, 10**7))
    return {**log, "counted": closed["tasks"] - opened["tasks"]}


@pytest.mark.slow
def test_a_window_holds_what_both_schedulers_did_and_is_the_same_again(make: Make) -> None:
    one, again, other = (recorded(make, seed) for seed in ("0", "0", "1"))
    assert one == again
    assert other["hash"] != one["hash"]
    finished_before = one["figures"]["recomputed"]
    assert 0 < finished_before < 40
    assert one["counted"] == 40 + finished_before
    assert any(name.endswith("-1") for name in one["workers"])  # the workers that came instead


def test_a_scheduler_is_away_for_as_long_as_is_said(make: Make) -> None:
    client, control = make(2)
    plan_restart(control, 1.0, 20.0)
    start = now()
    time.sleep(5)
    with Client(control.address, set_as_default=False) as other:
        assert 20.9 < now() - start < 22
        assert other.submit(inc, 1).result() is not None
    wait(client.map(inc, range(8), pure=False))


def test_a_client_that_has_no_time_to_wait_is_told(make: Make) -> None:
    _, control = make(2)
    plan_restart(control, 1.0, 20.0)
    time.sleep(5)
    with pytest.raises((OSError, TimeoutError)):
        Client(control.address, timeout=3, set_as_default=False)


def test_nothing_is_left_of_what_the_scheduler_knew(make: Make) -> None:
    client, control = make(2)
    with client.as_current():
        Lock("l").acquire()
    client.publish_dataset(x=1)
    plan_restart(control, 1.0)
    time.sleep(5)
    assert client.list_datasets() == ()
    with client.as_current():
        assert Lock("l").acquire(timeout=1)


@pytest.mark.slow
def test_it_may_die_again_and_while_workers_restart(make: Make) -> None:
    options = {"config.distributed.scheduler.validate": "true"}
    client, control = make(4, **options)
    for at in (0.5, 1.5, 4.0):
        plan_restart(control, at)
    futures = client.map(inc, range(100), pure=False)
    plan_restart(control, 7.0, 0.0)
    time.sleep(6)
    client.restart(timeout=60)
    time.sleep(5)
    assert {future.status for future in futures} == {"cancelled"}
    layer = client.map(inc, range(40), pure=False)
    wait([client.submit(sum, layer[start : start + 8], pure=False) for start in range(32)])
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == 4


@pytest.mark.parametrize(("fault", "name"), [("restart", "0"), ("kill", "scheduler")])
def test_only_the_scheduler_is_restarted(make: Make, fault: str, name: str) -> None:
    _, control = make(1)
    refusal = control.call(decisions.plan, 0.5, fault, [name], None)
    assert "only 'scheduler' can be restarted" in refusal


RESTARTED = """
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    schedprof_scheduler.plan(0.5, "restart", "scheduler")
    with pytest.raises(Exception):
        wait(client.map(inc, range(24), pure=False))
    wait(client.map(inc, range(24), pure=False))
"""


@pytest.mark.slow
def test_every_backend_records_both_schedulers(project: Project) -> None:
    options = ("--schedprof-workers=4", "--schedprof-cluster-option=duration=100ms")
    backends = ("--schedprof=decisions,counts,cprofile", "--schedprof-cluster=virtual")
    result = project.run_test(RESTARTED, *backends, *options)
    result.assert_outcomes(passed=1)
    assert "lost" not in "\n".join(result.outlines)
    (line,) = [line for line in result.outlines if "cprofile:" in line]
    assert int(line.split(": ")[1].split()[0]) > 24
