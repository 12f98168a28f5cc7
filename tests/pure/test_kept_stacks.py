"""Tests of stacks beside a baseline: differences are drawn from them when its run is gone."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from drawn import ORDER, SAMPLES_FILE, STACKS, drawn, kept, speedscope
from hypothesis import given
from hypothesis import strategies as st
from measured import measured

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.judge.recordings import Saved, keep_stacks, other_of
from pytest_schedprof.report.pages import drawn as drawn_of
from pytest_schedprof.store.baselines import save_run
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.run_directory import RunDirectory
from pytest_schedprof.store.runs import read_run
from pytest_schedprof.store.sources import Key, read_stacks, stacks_file_of, write_stacks

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


def before_of(directory: Path, run_id: str = "now") -> list[int]:
    """Samples of the other side in the flame graph of a run that was compared with `main`."""
    now = replace(measured(drawn(), test_id=TEST), baseline="main")
    if not (directory / run_id).exists():
        kept(directory / run_id, now)
    (test,) = read_run(directory / run_id).tests
    other = other_of(test, None, Saved(directory / run_id))
    ((flames, *_),) = drawn_of(now, test.directory, other, KNOWN)
    (flame,) = flames
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
    now = replace(measured(drawn(), test_id=TEST), baseline="main")
    kept(tmp_path / "now", now)
    save_run("main", str(tmp_path), RunDirectory(tmp_path, "now"))
    keep_stacks(tmp_path / "now", "main", str(tmp_path), KNOWN)
    assert before_of(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x1f\x8b\x08\x00half"])
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
    st.dictionaries(st.lists(FUNCTIONS, min_size=1).map(tuple), st.integers(1)),
)


@pytest.mark.slow
@given(STACKS_OF_TESTS)
def test_stacks_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, stacks: dict[Key, dict[tuple[str, ...], int]]
) -> None:
    folder = Folder(str(tmp_path_factory.mktemp("baseline")))
    write_stacks(folder, "run-1", stacks)
    assert read_stacks(folder) == {key: Counter(kept) for key, kept in stacks.items()}
