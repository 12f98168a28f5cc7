"""Tests of what is kept: the smallest recordings, and stacks beside a baseline."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest
from drawn import ORDER, SAMPLES_FILE, STACKS, drawn, kept, speedscope
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import TRANSITION, changed, counted, limited, measured, sampled
from msgspec.structs import replace

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.judge.recordings import Saved, keep_stacks, other_of
from pytest_schedprof.measuring.profiling import is_remarkable, trimmed
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.options import read_size
from pytest_schedprof.model.result import Result
from pytest_schedprof.report.pages import drawn as drawn_of
from pytest_schedprof.store.baselines import save_run
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.records import decode, encode
from pytest_schedprof.store.run_directory import RunDirectory
from pytest_schedprof.store.runs import find_run
from pytest_schedprof.store.sources import (
    Key,
    add_sources,
    files_beside,
    read_sources,
    read_stacks,
    stacks_file_of,
    take_sources,
    write_stacks,
)

KNOWN = BackendRegistry().facts
TEST = "test_a.py::test_b"


def saved(directory: Path, run_id: str, order: list[int]) -> None:
    """Save a run as the baseline `main`."""
    run = kept(
        directory / run_id,
        measured(drawn(order=order), test_id=TEST),
        samples=speedscope(STACKS, order),
    )
    save_run("main", str(directory), RunDirectory(directory, run_id))
    keep_stacks(run, "main", str(directory), KNOWN)


def before_of(directory: Path) -> list[int]:
    """Samples of the other side in the flame graph of a run that was compared with `main`."""
    now = measured(drawn(), test_id=TEST, baseline="main")
    run = directory / "now"
    if not run.exists():
        kept(run, now)
    (test,) = find_run(run).attempts()
    other = other_of(test, None, Saved(run))
    ((flame, *_),) = drawn_of(now, test.directory, other, KNOWN)
    assert flame is not None
    return sorted(filter(None, flame.content.get("before", [])))


def test_a_difference_survives_the_run_of_the_baseline(tmp_path: Path) -> None:
    saved(tmp_path, "before", [0] * 100 + [3] * 50)
    shutil.rmtree(tmp_path / "before")
    assert before_of(tmp_path) == [50, 100]


def test_the_newest_stacks_of_a_test_count_and_older_files_go(tmp_path: Path) -> None:
    saved(tmp_path, "run-1", [0] * 100)
    saved(tmp_path, "run-2", [3] * 70)
    assert before_of(tmp_path) == [70]
    folder = Folder(str(tmp_path)) / "baselines" / "main"
    assert not stacks_file_of(folder, "run-1").exists()
    assert stacks_file_of(folder, "run-2").exists()


def test_a_run_that_was_saved_over_its_baseline_is_not_compared_with_itself(
    tmp_path: Path,
) -> None:
    saved(tmp_path, "run-1", ORDER)
    now = kept(tmp_path / "now", measured(drawn(), test_id=TEST, baseline="main"))
    save_run("main", str(tmp_path), RunDirectory(tmp_path, "now"))
    keep_stacks(now, "main", str(tmp_path), KNOWN)
    assert before_of(tmp_path) == []


def test_shards_of_a_baseline_keep_their_sources_apart(tmp_path: Path) -> None:
    baseline = Folder(str(tmp_path / "main"))
    for run_id in ("run-1", "run-2"):
        sources = {f"m:{run_id}": Source("m.py", 1, "pass"), "m:both": Source("m.py", 2, run_id)}
        add_sources(tmp_path / run_id, "code", sources)
        take_sources(Folder(str(tmp_path / run_id)), run_id, baseline)
    kept_sources = read_sources(baseline, "code")
    assert kept_sources.keys() == {"m:run-1", "m:run-2", "m:both"}
    assert kept_sources["m:both"].text == "run-2"
    for file in files_beside(baseline, "run-1"):
        file.remove()
    assert read_sources(baseline, "code") == read_sources(Folder(str(tmp_path / "run-2")), "code")


def test_code_in_a_directory_whose_name_is_no_utf_8_has_sources_too(tmp_path: Path) -> None:
    """A record has such names escaped, and is what its sources are found by."""
    code = "/\udcff/lib"
    add_sources(tmp_path, code, {"m:f": Source(f"{code}/m.py", 1, "pass")})
    environment = replace(measured().environment, code=code)
    record = decode(encode(measured(environment=environment)), "", Result)
    sources = read_sources(Folder(str(tmp_path)), record.environment.code)
    assert sources == {"m:f": Source("/\\udcff/lib/m.py", 1, "pass")}
    assert read_sources(Folder(str(tmp_path)), code) == sources, "what the run has is known"


ROW_WITHOUT_COUNT = b'{"schedprof_stacks": 1, "functions": [], "tests": [["t", "b", "m", [[]]]]}'


@pytest.mark.parametrize(
    "damage",
    [b"", b"{}", b"\x1f\x8b\x08\x00half", gzip.compress(ROW_WITHOUT_COUNT)],
    ids=["empty", "no gzip", "cut off", "a row without a count"],
)
def test_damaged_stacks_are_as_none(tmp_path: Path, damage: bytes) -> None:
    saved(tmp_path, "before", ORDER)
    file = stacks_file_of(Folder(str(tmp_path)) / "baselines" / "main", "before")
    Path(str(file)).write_bytes(damage)
    assert before_of(tmp_path) == []


def test_a_test_without_its_samples_has_no_stacks(tmp_path: Path) -> None:
    run = kept(tmp_path / "before", measured(drawn(), test_id=TEST))
    (run / "0" / SAMPLES_FILE).unlink()
    save_run("main", str(tmp_path), RunDirectory(tmp_path, "before"))
    keep_stacks(run, "main", str(tmp_path), KNOWN)
    assert before_of(tmp_path) == []


FUNCTIONS = st.sampled_from(["a:f", "b:g", "c:<lambda>", "d:é"])
STACKS_OF_TESTS = st.dictionaries(
    st.builds(Key, st.text(), st.sampled_from(["pyspy", "cputime"]), st.just("")),
    st.dictionaries(
        st.lists(FUNCTIONS, min_size=1, max_size=3).map(tuple), st.integers(1), max_size=4
    ),
    max_size=4,
)


@settings(max_examples=20)
@given(STACKS_OF_TESTS)
def test_stacks_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, stacks: dict[Key, dict[tuple[str, ...], int]]
) -> None:
    folder = Folder(str(tmp_path_factory.mktemp("baseline")))
    write_stacks(folder, "run-1", stacks)
    assert read_stacks(folder) == {key: Counter(kept) for key, kept in stacks.items()}


def test_stacks_that_would_unpack_to_too_much_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(str(tmp_path))
    write_stacks(folder, "run-1", {Key(TEST, "cputime", ""): {("f" * 1000,): 1}})
    assert read_stacks(folder)
    monkeypatch.setattr("pytest_schedprof.store.sources.MOST_BYTES", 1000)
    assert not read_stacks(folder)


@pytest.fixture
def recordings(tmp_path: Path) -> Result:
    """A test with files of 30 bytes of one backend and 300 of the other."""
    small = replace(counted({TRANSITION: 1.0}), artifacts=("a.json", "b.json"))
    large = replace(sampled({(TRANSITION,): 1.0}), artifacts=("c.json", "d.json"))
    for name, size in {"a.json": 10, "b.json": 20, "c.json": 100, "d.json": 200}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    return measured(large, small)


@pytest.mark.parametrize(
    ("most", "names"),
    [
        (330, {"a.json", "b.json", "c.json", "d.json"}),
        (329, {"a.json", "b.json"}),
        (30, {"a.json", "b.json"}),
        (29, set()),
        (0, set()),
    ],
)
def test_the_smallest_backends_are_kept_whole(
    recordings: Result, tmp_path: Path, most: int, names: set[str]
) -> None:
    result = trimmed(recordings, tmp_path, most)
    assert {file.name for file in tmp_path.iterdir()} == names
    large, small = result.backends
    assert {*large.artifacts, *small.artifacts} == names
    assert (large.left_out, small.left_out) == (0 if most >= 330 else 300, 0 if most >= 30 else 30)
    assert replace(large, artifacts=(), left_out=0) == replace(recordings.backends[0], artifacts=())


def test_files_that_are_gone_are_no_error(recordings: Result, tmp_path: Path) -> None:
    (tmp_path / "c.json").unlink()
    assert trimmed(recordings, tmp_path, 0).backends[0].left_out == 200


@pytest.mark.parametrize(
    ("result", "remarkable"),
    [
        (measured(), False),
        (changed(1), False),
        (limited(Verdict.PASS), False),
        (changed(2), True),
        (changed(0.5), True),
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
