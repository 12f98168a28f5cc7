"""Tests of baseline storage: parts add up, locally and at URLs, and nothing is lost."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import fsspec
import fsspec.implementations.http
import pytest
from jsonschema import Draft202012Validator
from measured import ENVIRONMENT, SCHEDULER, counted, measured
from msgspec.structs import replace

from pytest_schedprof.errors import ArtifactError, BaselineError, without_secrets
from pytest_schedprof.model.result import Result
from pytest_schedprof.store import places
from pytest_schedprof.store.baselines import load, save
from pytest_schedprof.store.places import Folder

# Imported here, because a pytest session inside another test would import aiohttp, and drop it from
# sys.modules at its end, while fsspec keeps the file system that it made from that copy.
assert fsspec.implementations.http.aiohttp


def result(name: str, bytecodes: float = 1052.0, day: int = 1) -> Result:
    costs = counted({f"{SCHEDULER}._transition": bytecodes})
    return measured(costs, test_id=name, started_at=f"2026-01-{day:02}T00:00:00+00:00")


@pytest.fixture(params=["path", "url"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "path":
        return str(tmp_path)
    return f"memory://{quote(request.node.name)}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/a@b/main.json", "s3://bucket/a@b/main.json"),
        ("https://name:word@host/main.json", "https://***@host/main.json"),
        ("git+https://token@host/a and ssh://me@host", "git+https://***@host/a and ssh://***@host"),
        ("at 'https://host/x.json?sig=a&t=b': 403", "at 'https://host/x.json?***': 403"),
        ("'https://user:p@s's@host/x'", "'https://***@host/x'"),
        ("'https://host/it's?sig=ab'cd'", "'https://host/it's?***'"),
        ("'https://host/x', \"me@host\"", "'https://host/x', \"me@host\""),
        ("abfs://container@account/x", "abfs://container@account/x"),
        ("a/path?with@all", "a/path?with@all"),
    ],
)
def test_a_url_is_shown_without_what_lets_others_in(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def test_the_root_of_all_files_is_above_a_baseline_there() -> None:
    above = [Folder(path).parent for path in ("/main.json", "/a/main.json", "main.json")]
    assert above == [Folder("/"), Folder("/a"), Folder(".")]


def test_parts_add_up_and_the_newest_counts(place: str) -> None:
    name = f"{place}/main"
    save(name, "", "run-1", [result("a"), result("b")])
    save(name, "", "run-2", [result("a", 1100.0, day=2), result("c")])
    loaded = load(name, "nowhere")
    assert sorted(result.test_id for result in loaded.results) == ["a", "a", "b", "c"]
    assert len(Folder(name).files("*.json")) == 2


def test_costs_of_all_functions_are_kept_for_limits_on_their_sum(place: str) -> None:
    costs = counted({f"{SCHEDULER}._transition": 10.0, "built-in:len": 2.0, "mine:f": 3.0})
    save(f"{place}/main", "", "run-1", [measured(costs)])
    (kept,) = load(f"{place}/main", "nowhere").results
    assert [backend.costs for backend in kept.backends] == [costs.costs]


def test_a_part_whose_tests_were_all_saved_again_is_removed(place: str) -> None:
    name = f"{place}/main"
    save(name, "", "run-1", [result("a"), result("b")])
    other = replace(ENVIRONMENT, scheduler_python="3.13.0")
    save(name, "", "run-2", [replace(result("a"), environment=other)])
    assert len(Folder(name).files("*.json")) == 2  # a result from another Python stays
    save(name, "", "run-3", [result("b"), result("a")])
    kept = [file.name[:5] for file in Folder(name).files("*.json")]
    assert kept == ["run-2", "run-3"]


def test_sessions_that_save_at_once_lose_nothing(place: str) -> None:
    name = f"{place}/main"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: save(name, "", f"run-{i}", [result(f"t{i}")]), range(16)))
    assert {result.test_id for result in load(name, "").results} == {f"t{i}" for i in range(16)}


def test_sessions_that_save_into_one_file_add_up(place: str) -> None:
    """A second session replaces what it measured again, and nothing else."""
    file = f"{place}/main.json"
    save(file, "", "run-1", [result("a"), result("b")])
    assert [result.test_id for result in load(file, "").results] == ["a", "b"]
    save(file, "", "run-2", [result("b", 1100.0, day=2), result("c", day=2)])
    loaded = load(file, "").results
    assert [(result.test_id, result.started_at[8:10]) for result in loaded] == [
        ("a", "01"),
        ("b", "02"),
        ("c", "02"),
    ]


def test_a_file_that_is_no_baseline_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "somebody\'s"}')
    with pytest.raises(BaselineError, match=r"package.json' is no baseline$"):
        save(f"{tmp_path}/package.json", "", "run-1", [result("a")])
    with pytest.raises(BaselineError, match=r"package.json' is no baseline$"):
        load(str(tmp_path), "")
    assert (tmp_path / "package.json").read_text() == '{"name": "somebody\'s"}'


def test_sessions_that_save_the_same_tests_at_once_all_succeed(tmp_path: Path) -> None:
    """Each removes parts that others hold too, while another lists them."""
    name = f"{tmp_path}/main"
    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda i: save(name, "", f"run-{i}", [result("t")]), range(24)))
    assert [count for _, count in saved] == [1] * 24
    assert {result.test_id for result in load(name, "").results} == {"t"}


def test_what_is_written_agrees_with_the_published_schema(tmp_path: Path) -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/baseline.schema.json").read_text())
    save(f"{tmp_path}/main.json", "", "run-1", [result("a")])
    Draft202012Validator(schema).validate(json.loads((tmp_path / "main.json").read_text()))


def test_names_live_in_the_project_and_the_latest_is_found(tmp_path: Path) -> None:
    directory = str(tmp_path / ".schedprof")
    save("main", directory, "run-1", [result("a")])
    save("other", directory, "run-2", [result("b")])
    assert load("latest", directory).name == "other"
    assert load("main", directory).results[0].test_id == "a"
    with pytest.raises(BaselineError, match=r"there is no .*typo'; baselines in .*: main, other"):
        load("typo", directory)


def test_what_cannot_be_written_names_the_place_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match=r"cannot write .*file/main"):
        save(f"{tmp_path}/file/main", "", "run-1", [result("a")])
    with pytest.raises(ArtifactError, match=r"cannot write .http"):
        save("http://127.0.0.1:1/main.json", "", "run-1", [result("a")])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_part_that_is_cut_short_is_told_and_kept(place: str) -> None:
    name = f"{place}/main"
    save(name, "", "run-1", [result("a")])
    (part,) = Folder(name).files("*.json")
    part.write(part.read()[:-100])
    save(name, "", "run-2", [result("a")])
    assert len(Folder(name).files("*.json")) == 2
    with pytest.raises(BaselineError, match=r"run-1.* is corrupt: .*; or remove it"):
        load(name, "")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Serve a directory over HTTP, as CI often serves its artifacts."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_baseline_is_read_over_http(served: str, tmp_path: Path) -> None:
    save(f"{tmp_path}/main.json", "", "run-1", [result("a")])
    (loaded,) = load(f"{served}/main.json", "").results
    assert loaded.test_id == "a"
    with pytest.raises(BaselineError, match=f"there is no '{served}/other.json'"):
        load(f"{served}/other.json", "")


def test_a_url_that_does_not_answer_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}/main.json"
        with pytest.raises(BaselineError, match=r"cannot read .*: no answer within 0.2 s"):
            load(place, "")


def teardown_module() -> None:
    fsspec.filesystem("memory").store.clear()
