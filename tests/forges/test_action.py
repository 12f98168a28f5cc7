"""Run the action for real: for the default branch, then for a pull request that is slower."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from forge_server import REQUEST, ForgeServer, forge_server
from heavy_project import FILES, LINES, MORE
from runner import Runner

WORKFLOW = """
name: scheduler
on: [push, pull_request]
permissions: {contents: read, actions: read, pull-requests: write}
jobs:
  scheduler:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@9c091bb21b7c1c1d1991bb908d89e4e9dddfe3e0 # v7.0.0
      - uses: dask-contrib/pytest-schedprof@main
        with:
          pytest: tests --schedprof-cluster=simulated --schedprof-workers=4
"""

REPOSITORY = {"default_branch": "main"}
PUSHED = {"ref": "refs/heads/main", "repository": REPOSITORY}
PROPOSED = {
    "number": REQUEST,
    "pull_request": {"number": REQUEST, "head": {"sha": "abc123", "ref": "change"}},
    "repository": REPOSITORY,
}


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    """What stands for GitHub."""
    with forge_server() as server:
        yield server


@pytest.fixture
def runner(tmp_path: Path, server: ForgeServer) -> Runner:
    """A repository with a plugin of the scheduler, and a test of it."""
    runner = Runner(tmp_path, server, WORKFLOW)
    for name, text in FILES.items():
        runner.write(name, text)
    return runner


def names_in(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.namelist()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_pull_request_is_told_which_line_made_the_scheduler_slower(
    runner: Runner, server: ForgeServer
) -> None:
    done = runner.run("push", PUSHED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [artifact.name for artifact in server.artifacts] == ["schedprof", "schedprof-baseline"]
    run, baseline = (names_in(artifact.content) for artifact in server.artifacts)
    assert any(name.endswith("/index.html") for name in run)
    assert {name.partition("/")[0] for name in baseline} > {"sources"}
    assert server.comments == []

    runner.write("heavy.py", FILES["heavy.py"] + MORE)
    done = runner.run("pull_request", PROPOSED)
    said = done.stdout
    assert done.returncode == 1, done.stdout + done.stderr
    place = f"file=heavy.py,line={LINES[0]},endLine={LINES[1]}"
    title = "title=Scheduler performance%2C tests/test_heavy.py%3A%3Atest_tasks"
    (error,) = re.findall("::error.*", said)
    assert re.fullmatch(
        rf"::error {place},{title}::bytecodes per task: .* heavy:Counter.transition is called as "
        "before .* bytecodes more per call.*",
        error,
    )
    assert re.search("Summary - .*Scheduler performance: [0-9]+ regressed", said)
    (comment,) = server.comments
    assert "heavy:Counter.transition" in comment
    assert f"Commit abc123, [pages and profiles]({server.url}/pages/schedprof)" in comment
    assert [artifact.name for artifact in server.artifacts[2:]] == ["schedprof"]
    assert server.writes == ["POST"]
