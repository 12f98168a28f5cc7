"""Tests of `schedprof capacity`: measured here, interrupted, and with wrong input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client
from support import descendants, wait_for

from pytest_schedprof.cli.main import main
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.measuring import by_load, ladder, under_load
from pytest_schedprof.record.fetching import record_workload
from pytest_schedprof.workloads import tree_reduction

INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from pytest_schedprof.cli.main import main; sys.exit(main(sys.argv[1:]))"
)

SMALL = ["--workers", "2,5,10", "--repeats", "1", "--forecast", "40", "--durations", "1s"]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that no child process is left, whatever the outcome."""
    before = descendants()
    yield
    assert descendants() - before == set()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure with fewer tasks and for a shorter time: no test here asks for precise figures."""
    monkeypatch.setattr(ladder, "BASE_TASKS", 60)
    monkeypatch.setattr(ladder, "PREFIXES", (1, 5, 20))
    monkeypatch.setattr(ladder, "MOST_ROUNDS", ladder.LEAST_ROUNDS)
    monkeypatch.setattr(by_load, "SECONDS", 0.5)
    monkeypatch.setattr(by_load, "MOST_TRIES", 6)
    monkeypatch.setitem(under_load.IDLE_S, "simulated", 0.3)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("cluster", ["simulated", "virtual"])
def test_a_scheduler_is_measured_and_larger_clusters_are_forecast(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "there" / "capacity"
    assert main(["capacity", *SMALL, "--cluster", cluster, "-o", str(directory)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"Tasks of one second: saturated at about [\d,]+ threads", text)
    told = json.loads((directory / "capacity.json").read_text())
    (side,) = told["sides"]
    assert [each["workers"] for each in side["measured"]["workers"]] == [2, 5, 10]
    for point in side["measured"]["workers"]:
        assert point["tasks"] == 3 * point["workers"]
        assert all(1e-5 < cost < 1.0 for cost in point["cpu"])
        assert 0 < point["stall"] < 60
    assert [each["workers"] for each in side["sizes"]] == [2, 5, 10, 40]
    assert [each["what"] for each in side["growth"]] == ["workers", "tasks", "prefixes"]
    looks = side["measured"]["sweeps"]["looks"]
    assert [each["workers"] for each in looks] == [2, 5, 10, 40]
    assert all(1e-10 < seconds < 1e-5 for each in looks for seconds in each["seconds"])
    assert (side["measured"]["by_load"] is None) == (cluster == "virtual")
    if cluster == "simulated":
        check_loads(side["measured"]["by_load"], text)
    (second,) = side["saturation"]
    assert second["threads"]["low"] <= second["threads"]["value"]
    page = (directory / "capacity.html").read_text()
    assert page.count("<svg") == 2
    assert "saturated at about" in page


def check_loads(found: dict[str, Any], text: str) -> None:
    """Check that the rate follows from the loads that were tried: a busy machine carries less."""
    assert found["loads"]
    assert all(each["ended"] > 0 and each["lag"] >= 0 for each in found["loads"])
    assert found["rate"] in [0, *(each["asked"] for each in found["loads"] if not each["broken"])]
    failed = found["failed"]
    assert failed in [None, *(each["asked"] for each in found["loads"] if each["broken"])]
    assert failed is None or found["rate"] < failed
    assert "tasks a second" in text


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("few")
def test_a_recorded_workload_is_measured_on_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w.schedprof"
    cluster = SimulatedCluster(2, timeout_s=60, options={"duration": "20ms"})
    try:
        with Client(cluster.address) as client, record_workload(client, str(path)):
            tree_reduction(client, 50)
    finally:
        cluster.close()
    there = ["--against", "config:distributed.scheduler.worker-saturation=inf"]
    assert main(["capacity", *SMALL, "--workload", str(path), *there, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    here, other = (each["measured"] for each in told["sides"])
    assert other["name"] == there[1]
    for point in (*here["workers"], *other["workers"]):
        assert 44 <= point["tasks"] <= 49
    assert [each["workers"] for each in told["changes"]] == [2, 5, 10]
    # The mean of the recorded durations is of interest, too.
    assert len(told["sides"][0]["saturation"]) == 2


@pytest.mark.slow
def test_an_interrupt_ends_all_that_was_started(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "capacity", "-o", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        me = psutil.Process(process.pid)
        wait_for(lambda: len(descendants(me)) >= 2, "a cluster")
        children = me.children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    wait_for(lambda: not any(each.is_running() for each in children), "the cluster to end")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--shape", "circle"], "there is no shape 'circle'; known: many_tiny_tasks, "),
        (["--workload", "gone.schedprof"], "the workload gone.schedprof cannot be read: No such"),
        (["--workers", "100,many,300"], "--workers must be a whole number from 1 to 20000, or "),
        (["--workers", "100,200"], "must have 3 different sizes at least, such as 100,200,"),
        (["--workers", "100,100,200"], "must have 3 different sizes at least"),
        (["--workers", "0,1,2"], "or several with commas; got '0'"),
        (["--workers", "1,2,1e9"], "or several with commas; got '1e9'"),
        (["--forecast", ""], "--forecast must be a whole number from 1 to 10000000"),
        (["--threads", "-1"], "--threads must be a whole number from 1 to 1000; got '-1'"),
        (["--tasks", "1.5"], "--tasks must be a whole number from 1 to 1000; got '1.5'"),
        (["--repeats", "nan"], "--repeats must be a whole number from 1 to 1000; got 'nan'"),
        (["--durations", "1s,soon"], "--durations must be a time from 100us to 1000000s, such "),
        (["--max-stall", "0"], "--max-stall must be a time from 100us"),
        (["--max-lag", "1e99s"], "--max-lag must be a time from 100us"),
        (["--cluster-option", "slow"], "--cluster-option must be NAME=VALUE, got 'slow'"),
        (["--cluster-option", "slow=1"], "has no option 'slow'; known: "),
        (["--against", "workers=7"], "must have as many workers and threads as this side"),
        (["--against", "nowhere/python"], "there is nothing at '"),
    ],
)
def test_bad_input_is_named(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["capacity", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_a_file_that_is_no_workload_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nonsense"
    path.write_bytes(b"nonsense")
    assert main(["capacity", "--workload", str(path)]) in (1, 2)
    assert str(path) in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["capacity", "-o", str(tmp_path / "file" / "below")]) == 1
    told = capsys.readouterr().err
    assert "cannot write" in told
    assert "workers" not in told
