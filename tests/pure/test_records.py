"""Tests of result.json and run.json: a lossless round trip, read errors, and a run's commit."""

from __future__ import annotations

import json
import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from measured import limited
from msgspec.structs import replace
from random_records import RESULTS, RUNS

from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.judge.explanation import pairs_of
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import SCHEMA_VERSION, Result, Segment, Window
from pytest_schedprof.model.run import Run, StoredResult
from pytest_schedprof.report.tables import describe, limits_of
from pytest_schedprof.store import records as module
from pytest_schedprof.store.baselines import kept_run, load, recorded_runs, runs_before
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.records import (
    CI_BRANCHES,
    begin_run,
    commit_of,
    encode,
    read_record,
    write_run,
)
from pytest_schedprof.store.run_directory import RunDirectory, write
from pytest_schedprof.store.runs import (
    Archive,
    find_run,
    read_run_record,
    removable,
    remove,
    results_of,
    unreported,
)

PROPERTY = settings(max_examples=25)


def result(test_id: str = "test_a.py::test_b", *verdicts: Verdict) -> Result:
    return limited(*verdicts, test_id=test_id, troubles=("é went wrong",))


def stored(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path to which each record is written in turn."""
    return tmp_path_factory.mktemp("records") / "result.json"


RESULT_SCHEMA, RUN_SCHEMA = (
    json.loads((Path(__file__).parents[2] / "docs" / f"{name}.schema.json").read_text())
    for name in ("result", "run")
)


@PROPERTY
@given(record=RESULTS)
def test_any_result_is_read_as_it_was_written_and_fits_its_schema(
    file: Path, record: Result
) -> None:
    file.write_bytes(encode(record))
    assert read_record(file, Result) == record
    jsonschema.Draft202012Validator(RESULT_SCHEMA).validate(json.loads(file.read_bytes()))


@PROPERTY
@given(record=RUNS)
def test_any_run_is_read_as_it_was_written_and_fits_its_schema(file: Path, record: Run) -> None:
    file.write_bytes(encode(record))
    assert read_record(file, Run) == record
    jsonschema.Draft202012Validator(RUN_SCHEMA).validate(json.loads(file.read_bytes()))


def test_a_result_is_json_for_people_with_its_version() -> None:
    text = encode(result()).decode()
    assert text.endswith("}\n")
    assert '\n  "test_id": "test_a.py::test_b",\n' in text
    assert json.loads(text)["schema_version"] == SCHEMA_VERSION


def test_a_record_knows_its_tasks_cost_limits_and_verdict() -> None:
    record = result("a", Verdict.PASS, Verdict.INCONCLUSIVE)
    window = Window(1, (Segment(2.0, 1.5, 1000, 6000), Segment(1.0, 0.5, 1000, 6000)))
    assert (window.tasks, window.seconds) == (2000, 3.0)
    assert window.cpu_us_per_task == pytest.approx(1000)
    assert [limit.verdict for limit in record.limits] == [Verdict.PASS, Verdict.INCONCLUSIVE]
    assert record.verdict is Verdict.INCONCLUSIVE
    assert replace(result(), troubles=()).verdict is Verdict.PASS
    assert result().verdict is Verdict.INCONCLUSIVE  # because it has troubles
    assert Window(1, (Segment(2.0, 1.5, 0, 0),)).cpu_us_per_task is None


def test_a_test_in_a_file_whose_name_is_no_utf_8_has_a_record_too(tmp_path: Path) -> None:
    """Python decodes such bytes to lone surrogates, and pytest puts them into the test's ID."""
    path = tmp_path / "result.json"
    path.write_bytes(encode(result("test_\udcff.py::test_b")))
    assert read_record(path, Result).test_id.endswith(".py::test_b")


def versioned(version: int) -> bytes:
    return json.dumps({**json.loads(encode(result())), "schema_version": version}).encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read {path}: No such file or directory"),
        (encode(result())[:-40], "{path} is corrupt: "),
        (
            versioned(SCHEMA_VERSION + 1),
            f"{{path}} has schema version {SCHEMA_VERSION + 1}, this release reads up to "
            f"{SCHEMA_VERSION}: upgrade pytest-schedprof",
        ),
        # With other fields, too.
        (b'{"schema_version": 99, "id": 3}', "{path} has schema version 99, this release reads up"),
        (versioned(0), "{path} has schema version 0, which is too old"),
    ],
)
def test_missing_corrupt_too_new_and_too_old_are_told_apart(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "result.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArtifactError) as caught:
        read_record(path, Result)
    assert str(caught.value).startswith(f"schedprof: {words.format(path=repr(str(path)))}")


def test_fields_that_a_later_release_of_this_version_added_are_ignored(tmp_path: Path) -> None:
    content = {**json.loads(encode(result())), "added_later": [1]}
    assert read_record(stored(tmp_path / "result.json", content), Result) == result()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"schema_version": "1"}',
        encode(result()).replace(b'"passed"', b"3"),
        encode(result("x", Verdict.PASS)).replace(b'"pass"', b'"perhaps"'),
        encode(Run("id", "now", 0)),
        encode(result()).replace(b'"passed"', b'"\xff"'),
        encode(result()).replace(b'"test_id"', b'"\xff"'),
        encode(result()).decode().encode("utf-16"),
        b"[" * 100_000,
        b'{"schema_version": 1, "x": ' + b"[" * 100_000,
    ],
    ids=range(11),  # some are long
)
def test_what_is_no_record_is_corrupt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="is corrupt: "):
        read_record(path, Result)


@pytest.mark.parametrize("schema", [RESULT_SCHEMA, RUN_SCHEMA], ids=["result", "run"])
def test_the_published_schema_is_a_schema(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_schema_refuses_a_result_without_what_it_needs_or_with_an_unknown_verdict() -> None:
    whole = json.loads(encode(result("x", Verdict.FAIL)))
    validator = jsonschema.Draft202012Validator(RESULT_SCHEMA)
    validator.validate(whole)
    for field in ("test_id", "outcome", "backends", "confidence"):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({name: value for name, value in whole.items() if name != field})
    whole["backends"][0]["limits"][0]["verdict"] = "perhaps"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(whole)


def test_the_record_of_a_run_names_every_profiled_test(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "root", "run-1")
    run.prepare()
    tests = ["a.py::test_pass", "a.py::test_fail", "a.py::test_lost"]
    verdicts = [(Verdict.PASS,), (Verdict.PASS, Verdict.FAIL), ()]
    results = [result(name, *verdict) for name, verdict in zip(tests, verdicts, strict=True)]
    places = [run.new_test(name) for name in tests[:2]]
    directories = [*map(str, places), ""]
    write_run(run, 1_700_000_000.0, 1, map(StoredResult, directories, results), tmp_path)

    record = read_record(run.path / "run.json", Run)
    assert (record.run_id, record.exit_status) == ("run-1", 1)
    started = datetime.fromisoformat(record.started_at)
    assert started == datetime.fromtimestamp(1_700_000_000, UTC)
    assert started.utcoffset() is not None
    assert [entry.test_id for entry in record.tests] == tests
    assert [entry.outcome for entry in record.tests] == ["passed"] * 3
    expected = [Verdict.INCONCLUSIVE, Verdict.FAIL, Verdict.INCONCLUSIVE]
    assert [entry.verdict for entry in record.tests] == expected
    assert [(run.path / entry.directory) for entry in record.tests[:2]] == places
    assert record.tests[2].directory == ""
    moved = (tmp_path / "root").rename(tmp_path / "other") / "run-1"
    assert all((moved / entry.directory).is_dir() for entry in record.tests)
    assert not any(Path(entry.directory).is_absolute() for entry in record.tests)


def test_a_run_whose_directory_is_gone_is_an_artifact_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="--schedprof-dir"):
        write_run(RunDirectory(tmp_path / "nowhere", "run-1"), 0.0, 0, [], tmp_path)


@pytest.fixture
def killed(tmp_path: Path) -> RunDirectory:
    """The run of a session that was killed when two of its tests had ended."""
    run = RunDirectory(tmp_path / "root", "run-1")
    run.prepare()
    begin_run(run, 1_700_000_000.0, tmp_path)
    for hour, name in enumerate(["b.py::test_first", "a.py::test_second"]):
        record = replace(result(name, Verdict.PASS), started_at=f"2025-01-31T{hour:02}:00:00+00:00")
        write(run.new_test(name) / "result.json", encode(record))
    (run.new_test("a.py::test_cut") / "result.json").write_text('{"test_id": "a.p')
    return run


def test_a_session_that_was_killed_has_the_tests_that_ended(killed: RunDirectory) -> None:
    kept = find_run(killed.root)
    assert kept.record.exit_status is None
    expected = [("b.py::test_first", "passed"), ("a.py::test_second", "passed")]
    assert [(test.test_id, test.outcome) for test in kept.record.tests] == expected
    assert kept.test("second").result.test_id == "a.py::test_second"
    for spec in (str(killed.path), str(killed.root)):
        assert {result.test_id for result in load(spec, "").results} == {
            name for name, _ in expected
        }
    runs = Archive(str(killed.root)).runs()
    read = [pair for name, _ in expected for pair in results_of(runs, name, [])]
    assert [result.test_id for _, result in read] == [name for name, _ in expected]


def keep_run(root: Path, number: int) -> Path:
    """Keep a run that has ended, with one test; return its directory."""
    run, record = RunDirectory(root, f"run-{number}"), result("c.py::test_whole", Verdict.PASS)
    run.prepare()
    place = run.new_test(record.test_id)
    write(place / "result.json", encode(record))
    write_run(run, 1_600_000_000.0 + number, 0, [StoredResult(str(place), record)], root)
    return run.path


def test_a_killed_session_is_compared_with_only_if_no_other_one_ended(killed: RunDirectory) -> None:
    assert kept_run(str(killed.root), "") == killed.path
    ended = keep_run(killed.root, 0)
    assert [result.test_id for result in load(str(killed.root), "").results] == ["c.py::test_whole"]
    assert kept_run(str(killed.root), "") == ended, "samples are those of the same run"
    assert kept_run(f"{killed.root}/latest", "") == killed.path
    assert kept_run(str(killed.root), "", killed.path) == ended, "it is before the killed one"


@pytest.mark.parametrize("content", ["", "{}", '{"schema_version": 99}', '{"of": "others"}'])
def test_a_run_that_cannot_be_read_does_not_spoil_a_series(tmp_path: Path, content: str) -> None:
    place = keep_run(tmp_path, 1)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "run.json").write_text(content)
    assert len(load(str(tmp_path), "").results) == 1
    (place / "run.json").unlink()
    with pytest.raises(BaselineError, match=r"others/run\.json"):
        load(str(tmp_path), "")


def test_a_session_that_profiled_no_test_does_not_hide_the_run_before(tmp_path: Path) -> None:
    before = keep_run(tmp_path, 1)
    later = RunDirectory(tmp_path, "run-2")
    later.prepare()
    write_run(later, 1_600_000_002.0, 0, [], tmp_path)
    loaded = load(str(tmp_path), "")
    assert [result.test_id for result in loaded.results] == ["c.py::test_whole"]
    assert kept_run(str(tmp_path), "") == before


@pytest.mark.parametrize("name", ["keep", "0-keep"])  # after the run's own name, and before it
def test_a_run_and_a_link_to_it_are_compared_with_the_run_before(tmp_path: Path, name: str) -> None:
    before, newest = keep_run(tmp_path, 1), keep_run(tmp_path, 2)
    (tmp_path / name).symlink_to(newest.name)
    for other in (newest, tmp_path / name, find_run(tmp_path).path):
        (run,) = runs_before(other, recorded_runs(Folder(str(tmp_path))))
        assert run.path == before


def test_a_run_is_explained_by_the_run_that_it_is_compared_with(tmp_path: Path) -> None:
    before, newest = keep_run(tmp_path, 1), keep_run(tmp_path, 2)
    ((old, new),) = pairs_of(str(tmp_path), f"{tmp_path}/latest", "")
    assert (old.run, new.run) == (Folder(str(before)), Folder(str(newest)))


def test_the_end_of_a_session_tells_tests_that_no_report_brought(killed: RunDirectory) -> None:
    (reported,) = (killed.path / "tests").glob("*first*")
    ((place, second),) = unreported(killed.path, [str(reported), "elsewhere"])
    assert second.test_id == "a.py::test_second"
    write_run(killed, 0.0, 2, [StoredResult(str(place), second)], killed.root)
    record = read_run_record(killed.path)
    assert (record.exit_status, len(record.tests)) == (2, 1)
    assert record.started_at.startswith("2023-11-14")  # as when it began


def test_a_killed_session_is_removed_when_it_cannot_be_running(killed: RunDirectory) -> None:
    newer = RunDirectory(killed.root, "run-2")
    newer.prepare()
    write_run(newer, 1_800_000_000.0, 0, [], killed.root)
    assert removable(killed.root, 1) == []
    for path in [*killed.path.rglob("*"), killed.path]:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    (old,) = removable(killed.root, 1)
    remove(old)
    assert not killed.path.exists()


def test_limits_that_this_release_does_not_know_are_shown_as_text(tmp_path: Path) -> None:
    content = json.loads(encode(result("a", Verdict.PASS, Verdict.PASS)))
    limit = content["backends"][0]["limits"][0]
    limit["limit"], limit["parsed"]["metric"] = "novelty <= 1", "novelty"
    read = read_record(stored(tmp_path / "result.json", content), Result)
    (_, unknown, nothing), (_, _, known) = limits_of(read)
    assert (unknown.limit, nothing) == ("novelty <= 1", None)
    assert known is not None
    assert describe(read.limits[0]).startswith("novelty <= 1: this release")


NOBODY = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")


def git(place: Path, *arguments: str) -> str:
    command = ["git", "-C", str(place), *NOBODY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CI_BRANCHES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=work")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "code.py").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=first")
    return tmp_path


def test_it_is_what_is_checked_out_also_from_a_directory_below(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "result.json").write_text("{}")  # a new file is no change
    commit = commit_of(repository / "tests")
    assert commit is not None
    assert commit.sha == git(repository, "rev-parse", "HEAD")
    assert (commit.branch, commit.is_dirty) == ("work", False)
    assert abs(datetime.fromisoformat(commit.time).timestamp() - time.time()) < 600
    (repository / "tests" / "code.py").write_text("a = 2\n")
    git(repository, "checkout", "--quiet", "--detach")
    detached = commit_of(repository)
    assert detached is not None
    assert (detached.branch, detached.is_dirty) == ("", True)
    # Without a branch the CI service may know it.
    monkeypatch.setenv("GITHUB_HEAD_REF", "")
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    assert commit_of(repository) == replace(detached, branch="main")


def test_it_is_known_where_git_shows_signatures(repository: Path) -> None:
    commit = commit_of(repository)
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "gpg.program", "false")
    content = git(repository, "cat-file", "commit", "HEAD")
    head, _, message = content.partition("\n\n")
    (repository / "signed").write_text(f"{head}\ngpgsig none\n\n{message}\n")
    signed = git(repository, "hash-object", "-t", "commit", "-w", "signed")
    git(repository, "reset", "--quiet", signed)
    assert commit
    assert commit_of(repository) == replace(commit, sha=signed)


def test_no_repository_no_commit_no_directory_and_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) is None
    assert commit_of(tmp_path / "nowhere") is None
    git(tmp_path, "init", "--quiet")
    assert commit_of(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) is None


def test_what_a_test_left_patched_is_no_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *arguments, **keywords: 1 / 0)
    assert commit_of(repository) is None


def test_a_git_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    assert commit_of(tmp_path) is None


def test_a_run_is_written_with_its_commit_and_older_runs_are_read(repository: Path) -> None:
    run = RunDirectory(repository / ".schedprof", "run-1")
    run.prepare()
    write_run(run, 0.0, 0, [], repository)
    path = run.path / "run.json"
    assert read_record(path, Run).commit == commit_of(repository)
    record = json.loads(path.read_text())
    del record["commit"]
    path.write_text(json.dumps(record))
    assert read_record(path, Run).commit is None
