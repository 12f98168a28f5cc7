"""Tests of `schedprof ci` against a server with the APIs of the forges."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from forge_server import FORKS_ID, REQUEST, TOKEN, Artifact, ForgeServer, forge_server

from pytest_schedprof.cli.main import main

SUMMARY = "## Scheduler performance: 1 regressed\n"


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForgeServer]:
    """A forge, and a job of it for a pull request."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITLAB_CI", "GITHUB_REF_NAME", "GITHUB_WORKSPACE", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    # Other plugins take most of the time in which a session starts.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider -p pytest_schedprof.plugin.hooks")
    event = tmp_path / "event.json"
    begun = {"pull_request": {"number": REQUEST, "head": {"sha": "abc123"}}}
    event.write_text(json.dumps({**begun, "repository": {"default_branch": "main"}}))
    with forge_server() as server:
        for name, value in server.environment(event=str(event)).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def gitlab(forge: ForgeServer, monkeypatch: pytest.MonkeyPatch) -> ForgeServer:
    """The same for GitLab."""
    monkeypatch.delenv("GITHUB_ACTIONS")
    for name, value in {
        "GITLAB_CI": "true",
        "CI_API_V4_URL": forge.url,
        "CI_PROJECT_ID": "12",
        "CI_JOB_NAME": "schedprof",
        "CI_DEFAULT_BRANCH": "main",
        "CI_COMMIT_REF_NAME": "change",
        "CI_COMMIT_SHA": "abc123",
        "CI_MERGE_REQUEST_IID": str(REQUEST),
        "SCHEDPROF_TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(name, value)
    return forge


def write_summary(text: str) -> None:
    run = Path(".schedprof/20261124T101500-3fa2c1")
    run.mkdir(parents=True, exist_ok=True)
    record = {"run_id": run.name, "started_at": "2026-11-24", "exit_status": 1, "tests": []}
    (run / "run.json").write_text(json.dumps({**record, "schema_version": 1}))
    (run / "summary.md").write_text(text)


def archive(**files: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        for name, text in files.items():
            opened.writestr(name, text)
    return content.getvalue()


@pytest.mark.parametrize("kind", ["forge", "gitlab"])
def test_one_comment_is_made_and_then_edited(kind: str, request: pytest.FixtureRequest) -> None:
    server: ForgeServer = request.getfixturevalue(kind)
    server.comments += [f"talk {number}" for number in range(150)]  # more than a page
    write_summary(SUMMARY)
    assert main(["ci", "comment", "--link=https://example.com/1"]) == 0
    assert len(server.comments) == 151
    assert SUMMARY in server.comments[-1]
    assert "Commit abc123, [pages and profiles](https://example.com/1)" in server.comments[-1]
    server.comments += [f"more talk {number}" for number in range(150)]
    write_summary("## Scheduler performance: all the same\n")
    assert main(["ci", "comment"]) == 0
    assert len(server.comments) == 301
    assert "all the same" in server.comments[150]
    assert SUMMARY not in server.comments[150]
    assert server.writes == ["POST", "PATCH" if kind == "forge" else "PUT"]


def test_each_name_has_a_comment_of_its_own(forge: ForgeServer) -> None:
    write_summary(SUMMARY)
    for name in ("linux", "macos", "linux", "macos"):
        assert main(["ci", "comment", f"--name={name}"]) == 0
    assert len(forge.comments) == 2
    assert forge.writes == ["POST", "POST", "PATCH", "PATCH"]


def test_a_run_that_never_began_replaces_what_was_said_before(forge: ForgeServer) -> None:
    write_summary(SUMMARY)
    assert main(["ci", "comment"]) == 0
    for file in Path(".schedprof").glob("*/*"):
        file.unlink()
    assert main(["ci", "comment"]) == 0
    (body,) = forge.comments
    assert "no profiled test ran" in body


@pytest.mark.parametrize(
    ("kind", "remedy"), [("forge", "pull-requests: write"), ("gitlab", "SCHEDPROF_TOKEN")]
)
def test_a_token_that_may_not_write_fails_nothing_and_is_told(
    kind: str, remedy: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    request.getfixturevalue(kind).may_write = False
    write_summary(SUMMARY)
    assert main(["ci", "comment"]) == 0
    said = capsys.readouterr().out
    assert "403" in said
    assert remedy in said


def test_without_a_pull_request_there_is_nothing_to_comment_on(
    forge: ForgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("event.json").write_text("{}")  # as of a scheduled run, which has no repository either
    assert main(["ci", "comment"]) == 0
    assert "no pull request" in capsys.readouterr().out
    assert forge.writes == []


def test_the_newest_baseline_of_the_default_branch_is_fetched(forge: ForgeServer) -> None:
    name = "schedprof-baseline"
    forge.artifacts += [
        Artifact(name, archive(**{"a.json": "old"})),
        Artifact(name, archive(**{"a.json": "right", "sources/b.jsonl": "text"})),
        Artifact(name, archive(**{"a.json": "of a branch"}), branch="change"),
        Artifact(name, archive(**{"a.json": "of a fork"}), repository=FORKS_ID),
        Artifact(name, archive(**{"a.json": "expired"}), is_expired=True),
        Artifact("schedprof", archive(**{"a.json": "no baseline"})),
    ]
    assert main(["ci", "baseline"]) == 0
    place = Path(".schedprof/baselines/main")
    assert (place / "a.json").read_text() == "right"
    assert (place / "sources" / "b.jsonl").read_text() == "text"


def test_gitlab_sends_all_that_the_job_kept(gitlab: ForgeServer) -> None:
    kept = {
        ".schedprof/baselines/main/a.json": "right",
        ".schedprof/baselines/main/sources/b.jsonl": "text",
        ".schedprof/baselines/other/a.json": "another one",
        ".schedprof/2026/run.json": "a run",
    }
    gitlab.artifacts.append(Artifact("schedprof", archive(**kept)))
    assert main(["ci", "baseline"]) == 0
    found = [str(each) for each in sorted(Path(".schedprof").rglob("*")) if each.is_file()]
    assert found == [name for name in kept if "main" in name]


def test_an_archive_writes_nothing_elsewhere(forge: ForgeServer) -> None:
    names = (
        "../../evil.json",
        "/evil.json",
        "sources/../../evil.jsonl",
        "C:\\evil.json",
        "x/b.json",
    )
    content = archive(**dict.fromkeys(names, "evil"), **{"a.json": "right", "evil.py": ""})
    forge.artifacts.append(Artifact("schedprof-baseline", content))
    before = {each for each in Path().rglob("*") if each.is_file()}
    assert main(["ci", "baseline"]) == 0
    found = {each for each in Path().rglob("*") if each.is_file()} - before
    assert {each.name for each in found} == {"a.json"}
    assert not list(Path().resolve().parent.glob("evil*"))


@pytest.mark.parametrize("kind", ["forge", "gitlab"])
def test_without_a_baseline_the_tests_just_run(
    kind: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    request.getfixturevalue(kind)
    assert main(["ci", "baseline"]) == 0
    assert "main has no baseline yet" in capsys.readouterr().out
    assert main(["ci", "test", "--pytest=--version"]) == 0
    assert "--schedprof-compare" not in capsys.readouterr().out


def test_a_baseline_that_may_not_be_read_is_an_error_with_the_remedy(
    forge: ForgeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forge.artifacts.append(Artifact("schedprof-baseline", archive(**{"a.json": ""})))
    monkeypatch.delenv("GITHUB_TOKEN")
    assert main(["ci", "baseline"]) == 1
    assert "actions: read" in capsys.readouterr().err


def test_an_artifact_that_is_no_archive_is_an_error(
    forge: ForgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    forge.artifacts.append(Artifact("schedprof-baseline", b"no archive"))
    assert main(["ci", "baseline"]) == 1
    assert "the baseline of 'schedprof' is corrupt" in capsys.readouterr().err


SECRETS = """
import os

def test_it():
    assert not {"GITHUB_TOKEN", "SCHEDPROF_TOKEN"} & os.environ.keys()
"""


@pytest.mark.parametrize(
    ("branch", "request_number", "option"),
    [
        ("main", None, "--schedprof-save=main"),
        ("change", None, "--schedprof-compare=main"),
        ("7/merge", REQUEST, "--schedprof-compare=main"),
        ("main", REQUEST, "--schedprof-compare=main"),  # as for `pull_request_target`
    ],
)
def test_only_the_default_branch_itself_saves_a_baseline(
    forge: ForgeServer,
    branch: str,
    request_number: int | None,
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    asked = {"pull_request": {"number": request_number}} if request_number else {}
    event = {"repository": {"default_branch": "main"}, **asked}
    Path("event.json").write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_REF_NAME", branch)
    forge.artifacts.append(Artifact("schedprof-baseline", archive(**{"a.json": "{}"})))
    assert main(["ci", "baseline"]) == 0
    Path("test_it.py").write_text(SECRETS)
    # Nothing is profiled, and that is an error of a session which was to save or compare.
    assert main(["ci", "test"]) == (1 if "save" in option else 4)
    assert option in capfd.readouterr().out


def test_pytests_own_status_is_the_steps(forge: ForgeServer) -> None:
    Path("test_it.py").write_text("def test_it(): assert 0\n")
    assert main(["ci", "test"]) == 1
    assert main(["ci", "test", "--pytest=none"]) == 4


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("GITHUB_ACTIONS", None, "neither $GITHUB_ACTIONS nor $GITLAB_CI is set"),
        ("GITHUB_REPOSITORY", None, "the job has no variable $GITHUB_REPOSITORY"),
        ("GITHUB_EVENT_PATH", "none.json", "cannot read 'none.json' ($GITHUB_EVENT_PATH)"),
        ("GITHUB_API_URL", "file:///etc", "must be a URL, got 'file:///etc'"),
        ("GITHUB_API_URL", "http://127.0.0.1:1", "Connection refused"),
    ],
)
def test_a_mistake_is_named(
    forge: ForgeServer,
    variable: str,
    value: str | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
    write_summary(SUMMARY)
    assert main(["ci", "comment"]) > 0
    assert said in capsys.readouterr().err
