"""Tests of the action, which is run for real, and of the templates in docs/ci: they are valid, and
their commands do what they should.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from forge_server import ENDED, REQUEST, TOKEN, Artifact, ForgeServer, forge_server
from heavy_project import FILES, LINES, MORE
from runner import Runner
from support import RACE, python

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "docs" / "ci"

ARGUMENTS = "tests --schedprof-cluster=virtual --schedprof-workers=4 --schedprof-rounds=1"

TIMEOUT_S = 500


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-actions", ROOT / "action.yml"),
        ("github-actions", ROOT / "comment" / "action.yml"),
        ("gitlab-ci", TEMPLATES / "gitlab.yml"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_files_keep_the_schemas_of_their_forges(schema: str, file: Path) -> None:
    python("-m", "check_jsonschema", f"--builtin-schema=vendor.{schema}", str(file))


@pytest.mark.parametrize("file", ["action.yml", "comment/action.yml"])
def test_the_plugin_is_installed_by_no_pip_of_the_checkout(file: str, tmp_path: Path) -> None:
    steps = yaml.safe_load((ROOT / file).read_text())["runs"]["steps"]
    install = next(step["run"] for step in steps if "run" in step)
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("raise SystemExit('of the checkout')")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", install],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "GITHUB_ACTION_PATH": str(tmp_path / "none" / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "of the checkout" not in done.stderr
    assert "Invalid requirement" in done.stderr


class Jobs:
    """Jobs that run in the directory of a project."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name, text in FILES.items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_text(text)

    def slow_down(self) -> None:
        (self.path / "heavy.py").write_text(FILES["heavy.py"] + MORE)

    def run(self, commands: str, variables: Mapping[str, str]) -> int:
        """Run the commands of a job; return the status of the first one that fails."""
        ours = ("PYTEST", "COV_", "GITHUB_", "CI_")
        environ = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
        # Other plugins take most of the time in which a session starts.
        environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        environ["PYTEST_ADDOPTS"] = "-p no:cacheprovider -p pytest_schedprof.plugin.hooks"
        done = subprocess.run(
            ["bash", "-e", "-c", commands],
            cwd=self.path,
            env={**environ, "PYTHONPATH": str(self.path), **variables},
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode

    def regressed(self) -> set[str]:
        """What JUnit's file says of regressions."""
        properties = ElementTree.parse(self.path / "junit.xml").iter("property")
        named = [part for part in properties if part.get("name") == "schedprof_regressed"]
        return {part.get("value") or "" for part in named}


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path)


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    """What stands for GitHub and GitLab."""
    with forge_server() as server:
        yield server


def without_install(lines: list[str]) -> str:
    """The commands, but for that which installs what is installed here."""
    left = [line for line in lines if " pip install " not in line]
    assert len(left) == len(lines) - 1
    return "\n".join(left)


@pytest.mark.slow
def test_the_job_of_gitlab_compares_with_the_default_branch(
    jobs: Jobs, server: ForgeServer, capfd: pytest.CaptureFixture[str]
) -> None:
    template: dict[str, Any] = yaml.safe_load((TEMPLATES / "gitlab.yml").read_text())
    job = template["schedprof"]
    script, after = without_install(job["script"]), "\n".join(job["after_script"])
    known = {
        **job["variables"],
        "ARGUMENTS": f"--schedprof=counts {ARGUMENTS}",
        "CI_API_V4_URL": server.url,
        "CI_PROJECT_ID": "12",
        "CI_JOB_NAME": "schedprof",
        "CI_DEFAULT_BRANCH": "main",
        "BASELINE_TOKEN": TOKEN,
    }
    assert jobs.run(script, known) == 0, "without a baseline the tests just run"
    assert jobs.run(script, {**known, "CI_COMMIT_BRANCH": "main"}) == 0
    assert jobs.run("\n".join(template["pages"]["script"]), known) == 0
    assert (jobs.path / "public" / "index.html").is_file()
    server.artifacts.append(Artifact("schedprof", archive(jobs.path)))

    jobs.slow_down()
    assert jobs.run(script, known) == 1
    assert any("heavy:Counter.transition" in name for name in jobs.regressed())
    capfd.readouterr()
    assert jobs.run(after, {}) == 0
    assert "Scheduler performance: " in capfd.readouterr().out


def archive(path: Path) -> bytes:
    """What GitLab keeps of a job whose artifacts are `.schedprof/`."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        for file in (path / ".schedprof").rglob("*"):
            opened.write(file, file.relative_to(path))
    return content.getvalue()


@pytest.mark.slow
def test_the_nights_are_published_with_their_pages(jobs: Jobs) -> None:
    steps = yaml.safe_load((TEMPLATES / "nightly.yml").read_text())["jobs"]["schedprof"]["steps"]
    (inputs,) = [step["with"] for step in steps if "pytest-schedprof@" in step.get("uses", "")]
    (site,) = [step["run"] for step in steps if step.get("name") == "Make the site"]
    test = (
        f"pytest --schedprof={inputs['backends']} {ARGUMENTS} --schedprof-save=main "
        "--schedprof-option=cprofile.callgraph=false"
    )
    for _ in range(2):
        assert jobs.run(test, {"PYTHONHASHSEED": "0"}) == 0
        assert jobs.run(f"{site}\nrm -r .schedprof", {}) == 0
    links = re.findall("href='(.*?)'", (jobs.path / "site" / "index.html").read_text())
    assert links == sorted(links, reverse=True)
    assert len(links) == 2
    newest, before = (jobs.path / "site" / link for link in links)
    assert "2 runs in order of commits" in newest.read_text()
    assert before.is_file()
    (profile,) = newest.parent.glob("tests/*/scheduler.cprofile.pstats")
    assert profile.name in profile.with_name("index.html").read_text()


@pytest.mark.slow
def test_a_race_that_a_night_has_found_is_in_its_summary(jobs: Jobs) -> None:
    steps = yaml.safe_load((TEMPLATES / "nightly.yml").read_text())["jobs"]["races"]["steps"]
    search, summary = (step["run"] for step in steps if "name" in step)
    (jobs.path / "test_race.py").write_text(
        "import asyncio\nfrom distributed import wait\n"
        f"from distributed.utils_test import gen_cluster\n{RACE}"
    )
    plugins = "-p xdist.plugin -p pytest_timeout"
    variables = {"TESTS": f"{plugins} -n0 test_race.py", "GITHUB_RUN_NUMBER": "3"}
    search = search.replace("-n auto", "").replace("seeds=20", "seeds=3")
    assert jobs.run(search, variables) == 1
    file = jobs.path / "summary.md"
    assert jobs.run(summary, {"GITHUB_STEP_SUMMARY": str(file)}) == 0
    text = file.read_text()
    (seed, *_) = re.findall(r"under seed (\d+): it passes with nothing drawn, and fails if", text)
    assert 60 <= int(seed) < 63
    assert "A race of the test, which looks too early" in text
    assert f"FAILED test_race.py::test_race[seed{seed}]" in text


@pytest.mark.parametrize(("said", "status"), [("", 0), ("FAILED a::b", 1), ("ERROR a.py", 1)])
def test_a_search_that_the_hour_ends_keeps_what_it_has_found(
    jobs: Jobs, said: str, status: int
) -> None:
    steps = yaml.safe_load((TEMPLATES / "nightly.yml").read_text())["jobs"]["races"]["steps"]
    (search,) = (step["run"] for step in steps if "seeds" in step.get("name", ""))
    program = jobs.path / "pytest"
    program.write_text(
        f"#!/bin/bash\ntrap 'echo {said}; exit 2' INT\nwhile true; do sleep 0.1; done\n"
    )
    program.chmod(0o755)
    variables = {"PATH": f"{jobs.path}{os.pathsep}{os.environ['PATH']}", "GITHUB_RUN_NUMBER": "3"}
    assert jobs.run(search.replace(" 3600 ", " 1 "), {**variables, "TESTS": "tests"}) == status


@pytest.mark.slow
def test_the_steps_of_jenkins_compare_with_the_primary_branch(jobs: Jobs) -> None:
    text = (TEMPLATES / "Jenkinsfile").read_text()
    for opened, closed in ("{}", "()", "[]"):
        assert text.count(opened) == text.count(closed)
    (commands,) = re.findall("sh '''(.*?)'''", text, re.DOTALL)
    bucket = str(jobs.path / "bucket" / "main")
    variables = {"PYTHONHASHSEED": "0", "TESTS": ARGUMENTS, "BASELINE": bucket}
    assert jobs.run(commands, {**variables, "BRANCH_IS_PRIMARY": "true"}) == 0
    jobs.slow_down()
    assert jobs.run(commands, variables) == 1
    (pages,) = re.findall("sh '(mkdir.*)'", text)
    assert jobs.run(pages, {}) == 0
    assert (jobs.path / "pages" / "index.html").is_file()
    assert any("heavy:Counter.transition" in name for name in jobs.regressed())


WORKFLOWS = {
    "scheduler": f"""
name: scheduler
on: [push, pull_request]
permissions: {{contents: read, actions: read}}
jobs:
  scheduler:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@9c091bb21b7c1c1d1991bb908d89e4e9dddfe3e0 # v7.0.0
      - uses: dask-contrib/pytest-schedprof@main
        with:
          pytest: {ARGUMENTS}
""",
    "comment": """
name: comment
on:
  workflow_run: {workflows: [scheduler], types: [completed]}
permissions: {actions: read, pull-requests: write}
jobs:
  comment:
    runs-on: ubuntu-latest
    steps:
      - uses: dask-contrib/pytest-schedprof/comment@main
""",
}

REPOSITORY = {"default_branch": "main"}
PUSHED = {"ref": "refs/heads/main", "repository": REPOSITORY}
PROPOSED = {
    "number": REQUEST,
    "pull_request": {"number": REQUEST, "head": {"sha": "abc123", "ref": "change"}},
    "repository": REPOSITORY,
}


@pytest.fixture
def runner(tmp_path: Path, server: ForgeServer) -> Runner:
    """A repository with a plugin of the scheduler, and a test of it."""
    runner = Runner(tmp_path, server, WORKFLOWS)
    for name, text in FILES.items():
        runner.write(name, text)
    return runner


def names_in(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.namelist()


@pytest.mark.slow
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
    assert [artifact.name for artifact in server.artifacts[2:]] == ["schedprof"]
    assert server.comments == []

    ended = {"action": "completed", "workflow_run": ENDED, "repository": REPOSITORY}
    done = runner.run("workflow_run", ended)
    assert done.returncode == 0, done.stdout + done.stderr
    (comment,) = server.comments
    assert "heavy:Counter.transition" in comment
    assert "Commit abc123, [pages and profiles](https://example.com/runs/12)" in comment
    assert server.writes == ["POST"]
