"""Tests of `schedprof ci` against a server with the API of GitHub."""

from __future__ import annotations

import io
import json
import shutil
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forge_server import ENDED, FORKS_ID, REQUEST, Artifact, ForgeServer, forge_server
from measured import TRANSITION, changed
from msgspec.structs import replace

from pytest_schedprof.cli.main import main
from pytest_schedprof.model.explanation import Cause, Role
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import Run
from pytest_schedprof.store.records import encode, entry_of

PROPOSED = {"pull_request": {"number": REQUEST, "head": {"sha": "abc123"}}}


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForgeServer]:
    """A forge, and a job of it for a pull request."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    write_event(PROPOSED)
    with forge_server() as server:
        for name, value in server.environment(event=str(tmp_path / "event.json")).items():
            monkeypatch.setenv(name, value)
        yield server


def write_event(event: dict[str, Any]) -> None:
    """Let the job be for another event."""
    Path("event.json").write_text(json.dumps({**event, "repository": {"default_branch": "main"}}))


@pytest.fixture
def after(forge: ForgeServer) -> ForgeServer:
    """A forge, and a job of it after the one for a pull request."""
    write_event({"workflow_run": ENDED})
    return forge


def run_of(*results: Result, text: str = "anything", kind: int = zipfile.ZIP_STORED) -> bytes:
    """Return an artifact with the records of a run, and with a text that a stranger wrote."""
    tests = {f"tests/{number}/result.json": record for number, record in enumerate(results)}
    entries = [entry_of(record, str(Path(name).parent)) for name, record in tests.items()]
    run = Run("20261124T101500-3fa2c1", "2026-11-24", 1, tuple(entries), unmatched=("new: test_b",))
    records = {name: encode(record).decode() for name, record in tests.items()}
    records["run.json"] = encode(run).decode()
    files = {f"{run.run_id}/{name}": content for name, content in records.items()}
    return archive({**files, f"{run.run_id}/summary.md": text, "../run.json": text}, kind)


def archive(files: dict[str, str], kind: int = zipfile.ZIP_STORED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", kind) as opened:
        for name, text in files.items():
            opened.writestr(name, text)
    return content.getvalue()


def test_one_comment_is_made_and_then_edited(after: ForgeServer) -> None:
    """That of somebody else is left alone, whatever it begins with."""
    theirs = "<!-- pytest-schedprof: schedprof -->\nall is well"
    after.strangers.add(0)
    after.comments += [theirs, *(f"talk {number}" for number in range(149))]  # more than a page
    after.artifacts.append(Artifact("schedprof", run_of(changed(1.5, test_id="test_worse"))))
    assert main(["ci", "comment"]) == 0
    assert len(after.comments) == 151
    assert "## ❌ Scheduler performance: 2 regressed" in after.comments[-1]
    assert "`test_worse`" in after.comments[-1]
    assert "\n- new: test\\_b\n" in after.comments[-1]
    assert "anything" not in after.comments[-1]
    assert {file.name for file in Path(".schedprof").rglob("*.*")} == {"run.json", "result.json"}
    assert "Commit abc123, [pages and profiles](https://example.com/runs/12)" in after.comments[-1]
    after.comments += [f"more talk {number}" for number in range(150)]
    after.artifacts.append(Artifact("schedprof", run_of(changed(1.0, test_id="test_worse"))))
    assert main(["ci", "comment"]) == 0
    assert len(after.comments) == 301
    assert "## ✅ Scheduler performance: " in after.comments[150]
    assert after.comments[0] == theirs
    assert after.writes == ["POST", "PATCH"]


def test_each_name_has_a_comment_and_a_run_that_never_began_replaces_what_was_said(
    after: ForgeServer,
) -> None:
    after.artifacts += [Artifact(name, run_of(changed(1.0))) for name in ("linux", "macos")]
    for name in ("linux", "macos", "linux"):
        assert main(["ci", "comment", f"--name={name}", "--always"]) == 0
    after.artifacts.clear()
    assert main(["ci", "comment", "--name=macos"]) == 0
    linux, macos = after.comments
    assert "1 profiled test" in linux
    assert "no profiled test ran" in macos
    assert after.writes == ["POST", "POST", "PATCH", "PATCH"]


@pytest.mark.parametrize("conclusion", ["action_required", "skipped", "cancelled"])
def test_a_run_without_tests_that_has_not_failed_gets_no_comment(
    after: ForgeServer, conclusion: str
) -> None:
    write_event({"workflow_run": {**ENDED, "conclusion": conclusion}})
    assert main(["ci", "comment"]) == 0
    assert after.writes == []


WORSE = run_of(changed(1.5, test_id="test_worse"), kind=zipfile.ZIP_LZMA)
CAUSE = Cause(TRANSITION, Role.CHANGED, "novelty", 1.0, 2.0)


def with_cause() -> Result:
    result = changed(1.5)
    (comparison,) = result.comparisons
    return replace(result, comparisons=(replace(comparison, causes=(CAUSE,)),))


@pytest.mark.parametrize(
    "content",
    [
        WORSE[:-10],
        WORSE.replace(b"\x5d\x00\x00", b"\xff\xff\xff"),  # what LZMA begins with
        archive({"tests/0/result.json": "{}"}),
        run_of(with_cause()),
        run_of(changed(1.0), replace(changed(1.0), schema_version=99)),
        b"0" * 10**6,
    ],
)
def test_a_run_that_cannot_be_read_leaves_no_comment_on_an_earlier_one(
    after: ForgeServer, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_schedprof.cli.ci.MOST_BYTES", 10**6 - 1)
    after.artifacts.append(Artifact("schedprof", run_of(changed(1.0))))
    assert main(["ci", "comment", "--always"]) == 0
    shutil.rmtree(".schedprof")
    after.artifacts.append(Artifact("schedprof", content))
    assert main(["ci", "comment"]) == 0
    (comment,) = after.comments
    assert "the records of the run cannot be read" in comment


def test_a_run_without_a_change_edits_a_comment_and_makes_none(
    after: ForgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    after.artifacts.append(Artifact("schedprof", run_of(changed(1.0))))
    assert main(["ci", "comment"]) == 0
    assert after.writes == []
    assert capsys.readouterr().out == "nothing changed: no comment on pull request 7\n"


def test_a_token_that_may_not_write_fails_nothing_and_is_told(
    after: ForgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    after.may_write = False
    assert main(["ci", "comment"]) == 0
    said = capsys.readouterr().out
    assert "403" in said
    assert "pull-requests: write" in said


@pytest.mark.parametrize(
    "ended",
    [
        {"event": "push"},
        {"head_repository": None},  # the fork is gone
        {"head_sha": "of before"},  # the pull request has a newer commit
    ],
)
def test_without_a_pull_request_there_is_nothing_to_comment_on(
    after: ForgeServer, ended: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_event({"workflow_run": {**ENDED, **ended}})
    assert main(["ci", "comment"]) == 0
    assert "for no pull request" in capsys.readouterr().out
    assert after.writes == []


def test_where_code_of_a_pull_request_runs_nothing_comments(
    forge: ForgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ci", "comment"]) == 2
    assert "by a job of its own, for the event workflow_run" in capsys.readouterr().err
    assert forge.requests == []


def test_the_newest_baseline_of_the_default_branch_is_fetched(forge: ForgeServer) -> None:
    """No number of artifacts of forks hides it."""
    name = "schedprof-baseline"
    forge.artifacts += [
        Artifact(name, archive({"a.json": "old"})),
        Artifact(name, archive({"a.json": "right", "sources/b.jsonl": "", "stacks/b.json.gz": ""})),
        Artifact(name, archive({"a.json": "of a branch"}), branch="change"),
        Artifact(name, archive({"a.json": "of a fork"}), repository=FORKS_ID),
        Artifact(name, archive({"a.json": "of nobody"}), has_ids=False),
        # Both have the default branch as theirs, and may have run a stranger's code.
        Artifact(name, archive({"a.json": "of a comment"}), event="issue_comment"),
        Artifact(name, archive({"a.json": "of another run"}), event="workflow_run"),
        Artifact(name, archive({"a.json": "expired"}), is_expired=True),
        Artifact("schedprof", archive({"a.json": "no baseline"})),
        *[Artifact(name, b"", repository=FORKS_ID)] * 200,
    ]
    assert main(["ci", "baseline"]) == 0
    place = Path(".schedprof/baselines/main")
    assert (place / "a.json").read_text() == "right"
    assert (place / "sources" / "b.jsonl").is_file()
    assert (place / "stacks" / "b.json.gz").is_file()


def test_an_archive_writes_nothing_elsewhere(forge: ForgeServer) -> None:
    names = (
        "../../evil.json",
        "/evil.json",
        "sources/../../evil.jsonl",
        "C:\\evil.json",
        "x/b.json",
    )
    content = archive({**dict.fromkeys(names, "evil"), "a.json": "right", "evil.py": ""})
    forge.artifacts.append(Artifact("schedprof-baseline", content))
    before = {path for path in Path().rglob("*") if path.is_file()}
    assert main(["ci", "baseline"]) == 0
    after = {path for path in Path().rglob("*") if path.is_file()}
    assert {path.name for path in after - before} == {"a.json", "outputs"}
    assert not list(Path().resolve().parent.glob("evil*"))


def test_a_link_in_the_checkout_leads_nothing_out_of_it(
    forge: ForgeServer,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    Path(".schedprof").symlink_to(elsewhere)
    forge.artifacts.append(Artifact("schedprof-baseline", archive({"a.json": "text"})))
    assert main(["ci", "baseline"]) == 1
    assert "'.schedprof/baselines/main' leads out of the checkout" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


def test_a_file_of_the_checkout_that_is_a_link_is_replaced(forge: ForgeServer) -> None:
    place = Path(".schedprof", "baselines", "main")
    place.mkdir(parents=True)
    Path("own.py").write_text("own")
    (place / "a.json").symlink_to(Path("own.py").absolute())
    forge.artifacts.append(Artifact("schedprof-baseline", archive({"a.json": "text"})))
    assert main(["ci", "baseline"]) == 0
    assert (place / "a.json").read_text() == "text"
    assert Path("own.py").read_text() == "own"


def test_an_archive_that_would_unpack_to_too_much_is_refused(
    forge: ForgeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pytest_schedprof.cli.ci.MOST_BYTES", 10**6)
    files = {f"{number}.json": "0" * 600_000 for number in range(2)}
    content = archive(files, zipfile.ZIP_DEFLATED)
    forge.artifacts.append(Artifact("schedprof-baseline", content))
    assert main(["ci", "baseline"]) == 1
    assert "unpacked: it has 1200000 bytes, too many\n" in capsys.readouterr().err
    assert not Path(".schedprof").exists()


@pytest.mark.parametrize(("name", "most"), [("MOST_BYTES", 1000), ("ANSWER_S", 0.0)])
def test_an_answer_that_never_ends_is_not_waited_for(
    forge: ForgeServer,
    name: str,
    most: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(f"pytest_schedprof.cli.ci.{name}", most)
    forge.instead = b"[" * 2000
    assert main(["ci", "baseline"]) == 1
    assert f"{most:g}" in capsys.readouterr().err.partition(": more than ")[2]


def test_a_refusal_that_breaks_off_is_told_with_its_status(
    forge: ForgeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n?\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        server = threading.Thread(target=refuse, args=[listener])
        server.start()
        assert main(["ci", "baseline"]) == 1
        server.join()
    assert capsys.readouterr().err.endswith(": 500 Oops\n")


SHAPES = (
    *(b"", b"<html>busy</html>", b"null", b"1", b'"text"', b"[]", b"{}", b"[1]", b'{"artifacts": '),
    *(b'{"artifacts": 1}', b'{"artifacts": [1]}', b'{"artifacts": [{"id": "x"}]}', b"\xff\xfe"),
    *(b'[{"id": null}]', b'[{"id": 1, "body": 2}]', b'[{"id": 1, "user": "eve"}]', b"[" * 10**5),
)


@pytest.mark.parametrize("step", ["baseline", "comment"])
def test_an_answer_of_another_shape_is_one_clear_error(
    forge: ForgeServer, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_event({"workflow_run": ENDED})
    for shape in SHAPES:
        forge.instead = shape
        is_empty = (step, shape) == ("comment", b"[]")  # no pull request, which is an answer
        assert main(["ci", step]) == (0 if is_empty else 1)
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == (0 if is_empty else 1)
        for line in lines:
            assert line.startswith("schedprof: GET ")
            assert "no answer of GitHub's API" in line


def test_a_baseline_that_may_not_be_read_is_an_error_with_the_remedy(
    forge: ForgeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forge.artifacts.append(Artifact("schedprof-baseline", archive({"a.json": ""})))
    monkeypatch.delenv("GITHUB_TOKEN")
    assert main(["ci", "baseline"]) == 1
    assert "actions: read" in capsys.readouterr().err


WHOLE = archive({"a.json": "text" * 100})


@pytest.mark.parametrize("content", [WHOLE[:-10], WHOLE.replace(b"textt", b"other", 1)])
def test_an_artifact_that_is_no_archive_is_an_error(
    forge: ForgeServer, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    forge.artifacts.append(Artifact("schedprof-baseline", content))
    assert main(["ci", "baseline"]) == 1
    assert "the artifact cannot be unpacked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("event", "ref", "number", "option"),
    [
        ("push", "refs/heads/main", None, "--schedprof-save=main"),
        ("schedule", "refs/heads/main", None, "--schedprof-save=main"),
        ("workflow_dispatch", "refs/heads/main", None, "--schedprof-save=main"),
        ("workflow_dispatch", "refs/heads/change", None, "--schedprof-compare=main"),
        ("push", "refs/heads/change", None, "--schedprof-compare=main"),
        ("push", "refs/tags/main", None, "--schedprof-compare=main"),
        ("pull_request", "refs/pull/7/merge", REQUEST, "--schedprof-compare=main"),
        ("pull_request_target", "refs/heads/main", REQUEST, "--schedprof-compare=main"),
        ("issue_comment", "refs/heads/main", None, "--schedprof-compare=main"),
        ("workflow_run", "refs/heads/main", None, "--schedprof-compare=main"),
    ],
)
def test_only_a_push_schedule_or_dispatch_of_the_default_branch_saves_a_baseline(
    forge: ForgeServer,
    event: str,
    ref: str,
    number: int | None,
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = {"pull_request": {"number": number}} if number else {}
    known = {} if event == "schedule" else {"repository": {"default_branch": "main"}}
    Path("event.json").write_text(json.dumps({**known, **request}))
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)
    monkeypatch.setenv("GITHUB_REF", ref)
    saved = ".schedprof/baselines/main" if "save" in option else ""
    assert outputs() == {"option": option if saved else "", "saved": saved}
    assert ("::notice::main has no baseline yet" in capsys.readouterr().out) == (not saved)
    forge.artifacts.append(Artifact("schedprof-baseline", archive({"a.json": "{}"})))
    assert outputs() == {"option": option, "saved": saved}
    assert f"option for pytest: {option}\n" in capsys.readouterr().out
    url = Path("bucket", "main").absolute().as_uri()
    of_url = {"option": option.replace("=main", f"={url}"), "saved": ""}
    assert outputs(f"--url={url}") == (of_url if saved else {"option": "", "saved": ""})
    Path("bucket", "main").mkdir(parents=True)
    assert outputs(f"--url={url}") == of_url


def outputs(*options: str) -> dict[str, str]:
    """Outputs of the step that fetches the baseline."""
    Path("outputs").unlink(missing_ok=True)
    assert main(["ci", "baseline", *options]) == 0
    return dict(line.split("=", 1) for line in Path("outputs").read_text().splitlines())


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("GITHUB_ACTIONS", None, "$GITHUB_ACTIONS is not set; docs/ci.md has templates for GitLab"),
        ("GITHUB_REPOSITORY", None, "$GITHUB_REPOSITORY is not set"),
        ("GITHUB_EVENT_PATH", None, "$GITHUB_EVENT_PATH is not set"),
        ("GITHUB_EVENT_PATH", "none.json", "No such file or directory: 'none.json'"),
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
    assert main(["ci", "baseline"]) > 0
    assert said in capsys.readouterr().err
