"""Tests of a run's commit: it is what git says, and nothing depends on an answer from git."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from pytest_schedprof.model.run import Run
from pytest_schedprof.store import records as module
from pytest_schedprof.store.records import CI_BRANCHES, commit_of, read_record, write_run
from pytest_schedprof.store.run_directory import RunDirectory

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
