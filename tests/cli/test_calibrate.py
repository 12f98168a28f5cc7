"""Tests of `schedprof calibrate`: on this machine, interrupted, and with wrong input."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from measured import counted, measured
from support import Project, descendants, wait_for

from pytest_schedprof.cli.main import main
from pytest_schedprof.storage.baselines import save
from pytest_schedprof.storage.calibration_file import load_calibrations

INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from pytest_schedprof.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that no child process is left, whatever the outcome."""
    before = descendants()
    yield
    left = descendants() - before
    assert left == set()


@pytest.mark.slow
def test_a_machine_is_measured_and_comparisons_will_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "--time", "6s", "--dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    (found,) = load_calibrations(str(tmp_path))
    assert found.place[1:] == (".".join(map(str, sys.version_info[:2])), "simulated")
    assert found.machine
    cputime, counts = found.backends
    assert (cputime.backend, counts.backend) == ("cputime", "counts")
    assert cputime.windows == counts.windows >= 2
    assert cputime.cpu
    assert 0 < cputime.cpu.value < cputime.cpu.at_most
    assert {each.rounds for each in cputime.detectable} >= {1}
    assert counts.functions > 50
    alone, rounds = counts.alarms
    assert alone.comparisons >= 1
    assert alone.alarms / alone.comparisons <= alone.at_most
    assert rounds.rounds == 3
    transition = "distributed.scheduler:SchedulerState._transition"
    assert transition not in {each.function for each in counts.unsteady}
    assert "comparisons, at most" in text
    assert "CPU time per task varies by" in text
    assert str(tmp_path / "calibration.json") in text


@pytest.mark.slow
def test_an_interrupt_ends_all_that_was_started(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "calibrate", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        me = psutil.Process(process.pid)
        wait_for(lambda: len(descendants(me)) >= 2, "a cluster")
        children = me.children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    wait_for(lambda: not any(each.is_running() for each in children), "the cluster to end")
    assert not (tmp_path / "calibration.json").exists()


@pytest.mark.parametrize("time", ["soon", "0", "-5s", "4s", "nan", "1e9", "2d", ""])
def test_a_time_that_cannot_be_is_named(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", f"--time={time}"]) == 2
    assert f"a time from 5s to a day, such as 90s or 10min, got {time!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--backend", "nonsense"], 2, "backend 'nonsense' is unknown; known: "),
        (["--backend", "memray"], 2, "'memray' measures nothing that can be compared; use cputime"),
        (["--rate", "0"], 2, "rate must be a positive number of samples per second, got '0'"),
    ],
)
def test_what_cannot_be_measured_is_named(
    arguments: list[str],
    status: int,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["calibrate", *arguments, "--dir", str(tmp_path)]) == status
    assert told in capsys.readouterr().err


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="tachyon works from Python 3.15 on")
def test_a_backend_that_does_not_work_here_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "--backend", "tachyon", "--dir", str(tmp_path)]) == 1
    assert "tachyon comes with Python 3.15" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["calibrate", "--dir", str(tmp_path / "file" / "below")]) == 1
    told = capsys.readouterr().err
    assert "cannot write" in told
    assert "measuring" not in told


def test_a_corrupt_calibration_is_told_by_who_reads_it(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = project.path / ".schedprof"
    save("main", str(directory), "run", [measured(counted({"a:b": 1.0}))])
    (directory / "calibration.json").write_text("{")
    remedy = "calibration.json' is corrupt"
    for command in (["calibrate"], ["compare", "main", "main"]):
        assert main([*command, "--dir", str(directory)]) == 2
        assert remedy in capsys.readouterr().err
    project.write("def test_it():\n    pass\n")
    result = project.run("--schedprof-compare=main")
    result.stderr.fnmatch_lines([f"*{remedy}*remove it*schedprof calibrate*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
