"""Tests of a ring that becomes a run: packed as in the scheduler, written as in its own process."""

from __future__ import annotations

import inspect
import io
import sys
from pathlib import Path

import pytest
from distributed import Scheduler

from pytest_schedprof.blackbox import writing
from pytest_schedprof.blackbox.packed import Origin, Request, as_packed
from pytest_schedprof.blackbox.packing import pack
from pytest_schedprof.blackbox.slices import SLICE_S, Ring
from pytest_schedprof.cli.main import main
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.ring import Figures
from pytest_schedprof.storage.runs import find_run

INTERVAL, TASKS, SLICES = 0.05, 500, 3

ORIGIN = Origin("tcp://127.0.0.1:8786", "asyncio", INTERVAL, "")


STIMULUS = inspect.unwrap(Scheduler.stimulus_task_finished).__code__
TRANSITIONS = inspect.unwrap(Scheduler.transitions).__code__
NAME = "distributed.scheduler:Scheduler.stimulus_task_finished"


def figures(number: int) -> Figures:
    at, cpu = 1.7e9 + number * SLICE_S, number * 0.6
    return Figures(at, 1.2 * cpu, cpu, number * TASKS, 0, 0, 0, 0, 0, 0, 0, {})


def packed(kind: str = "asked") -> bytes:
    """A ring of three slices, in which two functions took two thirds and one third."""
    ring = Ring(60, figures(0))
    for number in range(SLICES):
        for sample in range(12):
            code = STIMULUS if sample % 3 else TRANSITIONS
            ring.current.add([(code, 1)], number * 0.6 + sample * INTERVAL)
        ring.current.stalls[STIMULUS] = (0.25 * (number + 1), 1.0)
        ring.rotate(figures(number + 1))
    return pack(list(ring.ended), Request(kind, "somebody asked"), ORIGIN)


def result_in(directory: Path) -> Result:
    run = find_run(directory)
    (test,) = run.record.tests
    return run.test(test.test_id).result


def test_a_ring_is_an_ordinary_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = writing.write_ring(packed(), tmp_path)
    assert (place / "index.html").exists()
    result = result_in(tmp_path)
    assert result.test_id == "blackbox[asked]"
    sampled, stalled = result.backends
    assert sampled.window.tasks == SLICES * TASKS
    assert sampled.shares is not None
    shares = {each.function: each.share.value for each in sampled.shares.functions}
    assert shares[NAME] == pytest.approx(2 / 3, abs=0.05)
    assert stalled.costs is not None
    longest = {each.function: each.total["stall"] for each in stalled.costs.functions}
    assert longest[NAME] == 0.75
    assert main(["show", "blackbox", str(tmp_path)]) == 0
    assert "us of scheduler CPU per task" in capsys.readouterr().out


def test_a_ring_without_samples_is_one_too(tmp_path: Path) -> None:
    ring = Ring(60, figures(0))
    ring.rotate(figures(1))
    content = pack(list(ring.ended), Request("exit", "it ends"), ORIGIN)
    writing.write_ring(content, tmp_path)
    assert result_in(tmp_path).test_id == "blackbox[exit]"


def test_so_many_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PATIENCE", 0)  # this process is not to be slower afterwards
    for kind in ("stall", "core", "exit"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed(kind))))
        assert writing.main(tmp_path, 2) == 0
    assert len([*tmp_path.glob("2*")]) == 2


def test_nothing_stays_of_a_run_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writing, "PATIENCE", 0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed())))
    (tmp_path / "file").write_text("")
    assert writing.main(tmp_path / "file", 1) == 1
    assert "schedprof: " in capsys.readouterr().err


def test_what_another_version_packed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another version"):
        writing.write_ring(as_packed(b'{"schedprof_blackbox": 99}'), tmp_path)
