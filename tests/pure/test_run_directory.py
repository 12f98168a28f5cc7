"""Tests of the run directory: a place for each run and test, whose files are complete or absent."""

from __future__ import annotations

import os
import re
import resource
import signal
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.store import run_directory as module
from pytest_schedprof.store.run_directory import RunDirectory, locked, new_run_id, safe_name, write


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run directory that is ready for writing."""
    run = RunDirectory(tmp_path / "root", "run-1")
    run.prepare()
    return run


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Make the kernel refuse to write larger files, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_run_ids_sort_by_time_and_differ_within_a_second() -> None:
    one, other = new_run_id(), new_run_id()
    assert re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{6}", one)
    assert one[:-2] <= other[:-2]
    assert one != other


def test_the_directory_is_made_when_it_is_needed_and_git_ignores_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "a" / "b", "run-1")
    assert run.path == tmp_path / "a" / "b" / "run-1"
    assert names_in(tmp_path) == set()
    run.prepare()
    assert run.path.is_dir()
    lines = (run.root / ".gitignore").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["*"]


def test_those_who_begin_together_make_it_together(tmp_path: Path) -> None:
    """Workers of pytest-xdist all find no directory, and one of them creates it first."""
    together = Barrier(4)

    def prepare(number: int) -> None:
        for root in range(50):
            together.wait(10)
            RunDirectory(tmp_path / f"{root}", "run-1").prepare()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(prepare, range(4)))
    assert all(".gitignore" in names_in(tmp_path / f"{root}") for root in range(50))


def test_a_gitignore_of_the_user_s_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.html\n")
    RunDirectory(tmp_path, "run-1").prepare()
    assert (tmp_path / ".gitignore").read_text() == "*.html\n"


def test_each_test_and_each_attempt_at_it_gets_a_directory_of_its_own(run: RunDirectory) -> None:
    places = [run.new_test(name) for name in ("a.py::test_b", "a.py::test_c", "a.py::test_B")]
    assert len(set(places)) == 3
    assert all(place.is_dir() and place.parent == run.path / "tests" for place in places)
    first = places[0]
    write(first / "kept", b"first")
    second, third = run.new_test("a.py::test_b"), run.new_test("a.py::test_b")
    assert len({first, second, third}) == 3
    assert (first / "kept").read_bytes() == b"first"
    assert names_in(second) == names_in(third) == set()
    assert second.name.startswith(first.name)


def test_a_root_below_a_regular_file_is_an_error_that_names_place_and_remedy(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    run = RunDirectory(tmp_path / "file" / "root", "run-1")
    for attempt in (run.prepare, lambda: run.new_test("a.py::test_b")):
        with pytest.raises(ArtifactError) as caught:
            attempt()
        assert repr(str(run.path)) in str(caught.value)
        assert "Not a directory" in str(caught.value)
        assert "--schedprof-dir" in str(caught.value)


def test_a_file_is_written_or_replaced_and_nothing_besides(tmp_path: Path) -> None:
    for content in (b"\x00\xff" * 100_000, b"short"):
        write(tmp_path / "result.json", content)
        assert (tmp_path / "result.json").read_bytes() == content
    assert names_in(tmp_path) == {"result.json"}


def test_what_an_interrupted_session_left_behind_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "result.json.part").write_bytes(b"half of an earlier file, and quite long")
    write(tmp_path / "result.json", b"{}", is_durable=True)
    assert (tmp_path / "result.json").read_bytes() == b"{}"
    assert names_in(tmp_path) == {"result.json", "result.json.part"}


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    """With one name for all unfinished files, one writer would move another's file away."""
    path, contents = tmp_path / "index.html", [bytes([65 + i]) * 200_000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(write, path), contents * 20))
    assert path.read_bytes() in contents
    assert names_in(tmp_path) == {"index.html"}


def test_one_process_at_a_time_holds_a_lock_and_a_stuck_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_S", 0.05)
    refused = pytest.raises(ArtifactError, match="another process has had it locked")
    with locked(tmp_path), refused, locked(tmp_path):
        pass
    with locked(tmp_path):  # released, and again free
        pass
    assert names_in(tmp_path) == set()


def test_a_write_that_fails_half_way_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with files_of_at_most(1000), pytest.raises(ArtifactError):
        write(path, b"new" * 1000)
    assert names_in(tmp_path) == set()
    write(path, b"old")
    with files_of_at_most(1000), pytest.raises(ArtifactError) as caught:
        write(path, b"new" * 1000)
    assert repr(str(path)) in str(caught.value)
    assert "File too large; make room" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == {"result.json"}


def test_a_write_that_is_interrupted_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    write(path, b"old")
    # The content is written, and the disk has not answered yet.
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            write(path, b"new", is_durable=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == {"run.json"}


@pytest.mark.parametrize(
    "name", ["missing/result.json", "file/result.json", "directory", "x" * 300]
)
def test_a_file_that_cannot_be_opened_is_an_error_that_names_place_and_remedy(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    path = tmp_path / name
    with pytest.raises(ArtifactError) as caught:
        write(path, b"{}")
    assert repr(str(path)) in str(caught.value)
    assert "--schedprof-dir" in str(caught.value)
    assert names_in(tmp_path) == {"file", "directory"}


PROPERTY = settings(max_examples=100)

HOSTILE = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\windows",
    "\\\\server\\share",
    "con",
    "a/b",
    "a b",
    "a\nb",
    "a\0b",
    "é" * 300,
    "x" * 10_000,
    "\udcff",
    "test_[\udc80]",
    'tests/test_a.py::TestB::test_c[1-<x>:"*?]',
)

TWINS: tuple[Callable[[str], str], ...] = (
    str.swapcase,
    lambda text: text.replace("/", "|"),
    lambda text: text.replace("::", "-"),
    lambda text: text.replace(".", ".."),
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: text + "\n",
    lambda text: text + "\0",
    lambda text: text[:150],
    lambda text: text + "\udcff",
    lambda text: safe_name(text),
)
"""Functions that change an ID into another one, for which a careless slug would be the same."""

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
TEST_IDS = st.one_of(
    ANY_TEXT,
    st.text(alphabet="aA/|.:-[]é\n", max_size=12),
    st.builds("tests/test_{}.py::test_{}[{}]".format, ANY_TEXT, ANY_TEXT, ANY_TEXT),
    st.sampled_from(HOSTILE),
)


def check(name: str) -> None:
    """Check that every file system accepts the name as a single path component."""
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9_]", name)
    assert len(name.encode("ascii")) <= 255
    assert Path(name).name == name


def test_hostile_ids_get_harmless_names_in_the_run_that_differ_without_regard_to_case(
    run: RunDirectory,
) -> None:
    for test_id in HOSTILE:
        assert run.new_test(test_id).resolve().parent == (run.path / "tests").resolve()
    names = [safe_name(test_id) for test_id in HOSTILE]
    for name in names:
        check(name)
    assert len({name.casefold() for name in names}) == len(HOSTILE)


@PROPERTY
@given(TEST_IDS, TEST_IDS)
def test_two_ids_get_two_names_without_regard_to_case(one: str, other: str) -> None:
    check(safe_name(one))
    same = safe_name(one).casefold() == safe_name(other).casefold()
    assert same == (one == other)


@PROPERTY
@given(TEST_IDS, st.sampled_from(TWINS))
def test_an_id_and_its_twin_get_two_names(test_id: str, twin: Callable[[str], str]) -> None:
    other = twin(test_id)
    if other != test_id:
        assert safe_name(test_id).casefold() != safe_name(other).casefold()


def test_a_person_recognises_the_test() -> None:
    name = safe_name("tests/test_a.py::TestB::test_c[1-x]")
    assert re.fullmatch(r"tests-test_a\.py-TestB-test_c-1-x-[0-9a-f]{12}", name)


def test_a_name_is_the_same_in_every_process_and_release() -> None:
    """Baselines and history are looked up by the name."""
    assert safe_name("tests/test_a.py::test_b") == "tests-test_a.py-test_b-9fb2811947a5"
    assert safe_name("é\udcff") == "test-3aef3ad56a25"
