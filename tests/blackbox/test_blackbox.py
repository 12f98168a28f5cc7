"""Tests of the black box on schedulers of dask's command line, with real workers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from operator import neg
from pathlib import Path
from time import monotonic
from urllib.request import urlopen

import dask.config
import plants
import pytest
from boxed import REFUSED, Boxed, boxed
from disks import small_disk
from distributed import Client, LocalCluster, Security
from support import settle, wait_for

from pytest_schedprof.cli.main import main
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.ring import KeptRing
from pytest_schedprof.storage.rings import ring_in
from pytest_schedprof.storage.runs import find_run

QUICK = {"stall": "0.3s", "every": "0s", "rate": "50", "lag": "1h"}
"""A black box that writes at each small stall, however busy the machine is."""


@contextmanager
def working(box: Boxed, *arguments: str, security: Security | None = None) -> Iterator[Client]:
    """A client, and two workers of dask's command line, each with its nanny."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", box.address, "--nworkers", "2",
               "--nthreads", "1", "--no-dashboard", *arguments]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        with Client(box.address, security=security) as client:
            client.wait_for_workers(2)
            yield client
    finally:
        process.terminate()
        process.wait()


def result_in(directory: Path) -> Result:
    (test,) = find_run(directory).record.tests
    return find_run(directory).test(test.test_id).result


def ring_of(directory: Path) -> KeptRing:
    test = find_run(directory).test("blackbox")
    ring = ring_in(test.path, test.result)
    assert ring is not None
    return ring


def of(result: Result, backend: str) -> BackendResult:
    (found,) = (each for each in result.backends if each.backend == backend)
    return found


def stalls_in(result: Result) -> dict[str, float]:
    costs = of(result, "stalls").costs
    assert costs is not None
    return {each.function: each.total["stall"] for each in costs.functions}


@pytest.mark.slow
def test_it_is_dumped_on_demand_as_an_ordinary_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "here"
    with boxed(tmp_path, options={"rate": "50"}) as box, working(box) as client:
        client.gather(client.map(neg, range(1500), pure=False))
        assert main(["dump", box.address, "--dir", str(runs)]) == 0
        place = Path(capsys.readouterr().out.strip())
    assert place.parent == runs
    assert (place / "index.html").exists()
    result = result_in(runs)
    assert result.test_id == "blackbox[asked]"
    sampled = of(result, "cputime")
    assert sampled.window.tasks == 1500
    assert sampled.shares is not None
    owners = {each.owner: each.share.value for each in sampled.shares.owners}
    assert owners["transitions"] > 0.02
    assert not any("blackbox" in each.function for each in sampled.shares.functions)
    assert main(["show", "blackbox", str(runs)]) == 0
    shown = capsys.readouterr().out
    assert "us of scheduler CPU per task" in shown
    assert re.search(r"^  received/s .* [1-9]", shown, re.M)
    assert re.search(r"^  memory .* MB$", shown, re.M)
    assert " asked: it was asked for" in shown
    exported = tmp_path / "box.pb.gz"
    command = ["export", "blackbox", str(runs), "--format", "pprof", "-o", str(exported)]
    assert main(command) == 0
    assert exported.stat().st_size > 100


@pytest.mark.slow
def test_the_scheduler_s_page_for_prometheus_has_its_figures(tmp_path: Path) -> None:
    options = {"prometheus": "True", "rate": "60"}
    with boxed(tmp_path, "--dashboard", options=options) as box, working(box) as client:
        client.gather(client.map(neg, range(2000), pure=False))
        assert main(["dump", box.address, "--dir", str(tmp_path / "here")]) == 0  # ends a slice
        port = client.scheduler_info()["services"]["dashboard"]
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
            text = page.read().decode()
        with urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as page:
            assert page.status == 200
    shares = re.findall(r'^dask_schedprof_owner_share{owner="([\w-]+)"} (\S+)$', text, re.M)
    assert {"transitions", "event-loop"} <= {owner for owner, _ in shares}
    assert sum(float(share) for _, share in shares) == pytest.approx(1)
    (cost,) = re.findall(r"^dask_schedprof_cost_per_task_seconds (\S+)$", text, re.M)
    assert 1e-5 < float(cost) < 0.1
    assert "dask_schedprof_longest_stall_seconds " in text
    assert "dask_scheduler_workers{" in text


TLS = {"ca-file": "ca_file", "cert": "cert", "key": "key"}
"""How arguments name what a role has."""


def tls_files(directory: Path, security: Security) -> list[str]:
    """Write certificates; return the arguments that name them."""
    arguments = []
    given = security.get_tls_config_for_role("scheduler")
    for name, content in TLS.items():
        (directory / name).write_text(given[content])
        arguments += [f"--tls-{name}", str(directory / name)]
    return arguments


@pytest.mark.slow
def test_it_works_beside_all_that_a_scheduler_of_production_has(tmp_path: Path) -> None:
    """TLS, a dashboard that is looked at, Prometheus, children, nannies that restart workers.

    From Python 3.14 on, distributed's own TLS connections to workers with nannies break.
    """
    protocol = "tls" if sys.version_info < (3, 14) else "tcp"
    security = Security.temporary() if protocol == "tls" else None
    tls = tls_files(tmp_path, security) if security else ()
    arguments = ("--protocol", protocol, "--dashboard", *tls)
    options = {"prometheus": "True", "rate": "60"}
    with (
        boxed(tmp_path, *arguments, options=options) as box,
        working(box, *tls, security=security) as client,
    ):
        dashboard = f"http://127.0.0.1:{client.scheduler_info()['services']['dashboard']}"
        client.gather(client.map(neg, range(200), pure=False))
        with urlopen(f"{dashboard}/status", timeout=60), urlopen(f"{dashboard}/metrics"):
            assert client.run_on_scheduler(plants.fork) == 7
        # A restart forgets what ended, and the box looks once a second.
        wait_for(lambda: client.run_on_scheduler(plants.seen) == (200, 200), "it to be counted")
        client.restart(timeout=60)  # returns when all workers are there again
        wait_for(lambda: client.run_on_scheduler(plants.seen) == (200, 0), "a look afterwards")
        client.gather(client.map(neg, range(200), pure=False))
        with urlopen(f"{dashboard}/metrics", timeout=60) as page:
            assert b"dask_schedprof_longest_lag_seconds " in page.read()
        box.process.send_signal(signal.SIGTERM)
        box.process.wait(60)
    troubles = ("could not be written", "has ended", "no samples", "no more samples", "took longer")
    assert not [line for line in box.own_lines if any(each in line for each in troubles)]
    assert box.own_lines[-1].endswith(": the scheduler closed\n")
    result = result_in(box.directory)
    assert result.cluster is not None
    assert result.cluster.address.startswith(f"{protocol}://")
    assert of(result, "cputime").window.tasks == 400


@pytest.mark.slow
def test_a_stall_is_written_with_its_function(tmp_path: Path) -> None:
    with boxed(tmp_path, options=QUICK) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.stall, 0.5)
        line = box.wait_for("the black box was written to")
        assert "plants:spin took 0." in line
        (run,) = box.runs()
        took = stalls_in(result_in(run))["plants:spin"]
        assert 0.4 <= took <= 0.6
        client.run_on_scheduler(plants.stall, 0.1)  # below the bound: nothing is written
        assert main(["dump", box.address, "--dir", str(tmp_path / "here")]) == 0
        assert len(box.runs()) == 1


@pytest.mark.slow
def test_a_loop_that_waits_is_written(tmp_path: Path) -> None:
    options = {"every": "0s", "stall": "1h", "lag": "2s"}
    with boxed(tmp_path, options=options) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.be_late, 3.0)
        line = box.wait_for("the black box was written to")
        assert float(re.findall(r"the event loop was late by (\S+) s", line)[0]) >= 2
        assert result_in(box.directory).test_id == "blackbox[lag]"


@pytest.mark.slow
def test_a_callback_that_does_not_end_is_written_meanwhile(tmp_path: Path) -> None:
    with boxed(tmp_path, options=QUICK) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.hang, str(tmp_path / "enough"), 3.5, wait=False)
        line = box.wait_for("the black box was written to")
        assert "plants:hang has used 3." in line
        assert not box.lines("it is over")
        (tmp_path / "enough").touch()
        box.wait_for("it is over")


@pytest.mark.slow
def test_runs_are_limited_in_time_and_number(tmp_path: Path) -> None:
    limited = {**QUICK, "every": "1h"}
    with boxed(tmp_path, options=limited) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.stall_thrice, 0.5)
        box.wait_for("the black box was written to")
        assert main(["dump", box.address, "--dir", str(tmp_path / "here")]) == 0
        assert len(box.runs()) == 1
        kinds = [event.kind for each in ring_of(tmp_path / "here").slices for event in each.events]
        assert kinds.count("stall") == 3  # also those for which no run was written
        assert kinds[-1] == "asked"
    few = {**QUICK, "keep": "2"}
    with boxed(tmp_path, options=few) as box, Client(box.address) as client:
        for number in range(1, 4):
            client.run_on_scheduler(plants.stall, 0.5)
            box.wait_for("the black box was written to", times=number)
        assert len(box.runs()) == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_core_that_is_full_for_long_is_written(tmp_path: Path) -> None:
    """It is a minute, which tests of the ring show. A sixth of a core is used, or all that a
    busy machine gives."""
    options = {"core": "10%", "stall": "1h", "lag": "1h"}
    in_haste = {"PLANTED": "haste"}
    with (
        boxed(tmp_path, options=options, environment=in_haste) as box,
        Client(box.address) as client,
    ):
        until = monotonic() + 200
        while not box.lines("the black box was written to") and monotonic() < until:
            begun = monotonic()
            client.run_on_scheduler(plants.stall, 0.25)
            settle(lambda: bool(box.lines("was written to")), begun + 1.5 - monotonic())
        line = box.wait_for("the black box was written to")
        assert f"used 10% of a core for {plants.HASTE_S:g} s" in line


def test_an_exception_in_the_loop_is_written(tmp_path: Path) -> None:
    with boxed(tmp_path) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.fail)
        assert (
            box.wait_for("the black box was written to")
            .rstrip()
            .endswith("LookupError: a planted error")
        )
        assert result_in(box.directory).test_id == "blackbox[exception]"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_a_scheduler_that_is_ended_writes_a_last_run(tmp_path: Path, number: int) -> None:
    with boxed(tmp_path) as box:
        box.process.send_signal(number)
        assert box.process.wait(60) == 0
        assert result_in(box.directory).test_id == "blackbox[exit]"
    assert [line for line in box.log if "Traceback" in line] == []


def test_a_process_that_ends_without_closing_its_scheduler_writes_a_run(tmp_path: Path) -> None:
    with boxed(tmp_path) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.leave, wait=False)
        assert box.process.wait(60) == 3
        assert result_in(box.directory).test_id == "blackbox[exit]"
        assert box.wait_for("the process ended")


def test_children_of_the_scheduler_are_left_alone(tmp_path: Path) -> None:
    with boxed(tmp_path, options={"rate": "60"}) as box, Client(box.address) as client:
        assert client.run_on_scheduler(plants.fork) == 7
        assert client.run_on_scheduler(plants.fork) == 7


def test_another_profiler_that_is_in_place_stays_there(tmp_path: Path) -> None:
    with boxed(tmp_path, environment={"PLANTED": "profiler"}) as box:
        box.wait_for("the black box takes no samples: another profiler uses the signal SIGPROF")
        assert main(["dump", box.address, "--dir", str(tmp_path / "here")]) == 0
        result = result_in(tmp_path / "here")
        assert [each.backend for each in result.backends] == ["stalls"]
        assert "no samples: another profiler" in result.evidence[0].notes[0]


@pytest.mark.slow
def test_another_profiler_that_comes_later_gets_the_signal(tmp_path: Path) -> None:
    with boxed(tmp_path) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.profile)
        box.wait_for("takes no more samples: another profiler has taken the signal SIGPROF")
        assert client.run_on_scheduler(lambda: 1 + 1) == 2


@pytest.mark.slow
def test_a_loop_beside_the_main_thread_has_no_samples_and_all_else(tmp_path: Path) -> None:
    """As that of a LocalCluster."""
    with (
        dask.config.set({"schedprof.blackbox": {"directory": str(tmp_path / "boxes")}}),
        LocalCluster(
            n_workers=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"preload": "pytest_schedprof.blackbox"},
        ) as cluster,
    ):
        assert main(["dump", cluster.scheduler_address, "--dir", str(tmp_path / "here")]) == 0
    result = result_in(tmp_path / "here")
    assert [each.backend for each in result.backends] == ["stalls"]
    assert "the scheduler's event loop is not in the main thread" in result.evidence[0].notes[0]
    assert result_in(tmp_path / "boxes").test_id == "blackbox[exit]"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rate": "often"}, "rate must be a number between 1 and 100, got 'often'"),
        ({"window": "5 apples"}, "window must be a time between 20s and 1h, got '5 apples'"),
        ({"keep": "0"}, "keep must be a number between 1 and 1000, got 0"),
        ({"core": "150%"}, "core must be a fraction between 10% and 100%, got '150%'"),
        ({"colour": "red"}, "there is no option schedprof.blackbox.colour; known: directory,"),
        ({"window": "1h", "rate": "100"}, "is more than 20000 samples"),
    ],
)
def test_a_scheduler_runs_without_a_box_if_its_options_are_wrong(
    tmp_path: Path, options: dict[str, str], complaint: str
) -> None:
    with boxed(tmp_path, options=options, says=REFUSED) as box:
        (line,) = box.own_lines
        assert complaint in line
        assert main(["dump", box.address]) == 1


@pytest.mark.slow
def test_no_scheduler_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "tcp://127.0.0.1:1"]) == 1
    assert "no scheduler answers at tcp://127.0.0.1:1" in capsys.readouterr().err


def is_alive(box: Boxed) -> bool:
    with Client(box.address) as client:
        return bool(client.run_on_scheduler(lambda: True))


KILOBYTES = 40


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk on which a run has no room."""
    with small_disk(tmp_path / "small", KILOBYTES) as place:
        yield place


@pytest.mark.slow
def test_a_full_disk_is_told_in_a_line(tmp_path: Path, small: Path) -> None:
    options = {**QUICK, "directory": str(small / "boxes")}
    with boxed(tmp_path, options=options) as box, Client(box.address) as client:
        client.run_on_scheduler(plants.stall, 0.5)
        line = box.wait_for("the black box could not be written")
        assert "No space left on device" in line
        assert len(box.own_lines) == 2
        assert is_alive(box)
        assert list((small / "boxes").glob("2*")) == []
