"""Tests of which recordings are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measured import SCHEDULER, counted, measured, sampled

from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.measuring.profiling import is_remarkable, trimmed
from pytest_schedprof.model.limit import LimitResult, Verdict
from pytest_schedprof.model.options import read_size
from pytest_schedprof.model.result import Result, TargetFiles

FUNCTION = f"{SCHEDULER}._transition"


@pytest.fixture
def kept(tmp_path: Path) -> Result:
    """A test with files of 30 bytes of one backend and 300 of the other."""
    small = replace(counted({FUNCTION: 1.0}), artifacts=("a.json", "b.json"))
    other = TargetFiles("client", (), ("client.json",))
    large = replace(sampled({(FUNCTION,): 1.0}), artifacts=("c.json",), targets=(other,))
    for name, size in {"a.json": 10, "b.json": 20, "c.json": 100, "client.json": 200}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    return measured(large, small)


def left(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


@pytest.mark.parametrize(
    ("most", "names"),
    [
        (330, {"a.json", "b.json", "c.json", "client.json"}),
        (329, {"a.json", "b.json"}),
        (30, {"a.json", "b.json"}),
        (29, set()),
        (0, set()),
    ],
)
def test_the_smallest_backends_are_kept_whole(
    kept: Result, tmp_path: Path, most: int, names: set[str]
) -> None:
    result = trimmed(kept, tmp_path, most)
    assert left(tmp_path) == names
    large, small = result.backends
    assert {*large.artifacts, *large.targets[0].artifacts, *small.artifacts} == names
    assert (large.left_out, small.left_out) == (0 if most >= 330 else 300, 0 if most >= 30 else 30)
    assert replace(large, artifacts=(), targets=(), left_out=0) == replace(
        kept.backends[0], artifacts=(), targets=()
    )


def test_files_that_are_gone_are_no_error(kept: Result, tmp_path: Path) -> None:
    (tmp_path / "c.json").unlink()
    assert trimmed(kept, tmp_path, 0).backends[0].left_out == 200


def compared(now: float) -> Result:
    before, after = (measured(counted({FUNCTION: cost})) for cost in (100.0, now))
    report = compare([before], [after], names=("main", "now"))
    return replace(after, comparisons=report.comparisons)


def limited(verdict: Verdict) -> Result:
    limits = (LimitResult("calls <= 1", verdict, (), parsed=parse_limit("calls <= 1")),)
    return measured(replace(counted({FUNCTION: 1.0}), limits=limits))


@pytest.mark.parametrize(
    ("result", "remarkable"),
    [
        (measured(), False),
        (compared(100.0), False),
        (limited(Verdict.PASS), False),
        (compared(200.0), True),
        (compared(50.0), True),
        (limited(Verdict.FAIL), True),
        (limited(Verdict.INCONCLUSIVE), True),
        (measured(outcome="failed"), True),
        (measured(outcome="xfailed"), True),
        (measured(troubles=("py-spy died",)), True),
    ],
)
def test_what_failed_changed_or_is_open_is_remarkable(result: Result, remarkable: bool) -> None:
    assert is_remarkable(result) is remarkable


def test_sizes_are_read() -> None:
    read = {text: read_size(text) for text in ("0", "20MB", "1.5 kB", "1GiB", "7B", "8mb")}
    assert list(read.values()) == [0, 20_000_000, 1500, 2**30, 7, 8_000_000]
    for wrong in ("MB", "-1", "1e3", "5 apples", "1" * 99):
        with pytest.raises(ValueError, match=wrong):
            read_size(wrong)
