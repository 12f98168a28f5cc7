"""One session, and what there is to see of it: its summary, and what commands make of it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import HEADER, INI

from pytest_schedprof.storage.summary import write_summary

BODY = f"""{HEADER}
KEPT = pytest.mark.schedprof("calls(@transitions) <= 1000")
BROKEN = pytest.mark.schedprof("calls(@transitions) <= 0.001")

@pytest.mark.parametrize(
    "name", [pytest.param("<script>", marks=BROKEN), pytest.param("a|b`c", marks=KEPT)]
)
def test_it(schedprof_scheduler, name):
    burn(schedprof_scheduler, 0.2)
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""

BROKEN, KEPT = "test_it.py::test_it[<script>]", "test_it.py::test_it[a|b`c]"

SESSION = [
    *(sys.executable, "-m", "pytest", "--schedprof=cputime,counts,cprofile,viztracer"),
    *("--schedprof-cluster=simulated", "--schedprof-workers=2", "--junitxml=junit.xml"),
]


@dataclass(frozen=True)
class Session:
    """A session that is over."""

    path: Path
    output: str

    @property
    def run(self) -> Path:
        (run,) = (file.parent for file in self.path.glob(".schedprof/*/run.json"))
        return run


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Nobody may change its files."""
    path = tmp_path_factory.mktemp("session")
    (path / "pytest.ini").write_text(INI)
    (path / "test_it.py").write_text(BODY)
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(path / "page.md")}
    process = subprocess.run(
        SESSION, cwd=path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert process.returncode == 1, process.stdout + process.stderr
    return Session(path, process.stdout)


def test_its_summary_is_beside_its_record_and_on_the_page_of_the_job(session: Session) -> None:
    summary = (session.run / "summary.md").read_text()
    assert summary.startswith("## ❌ Scheduler performance: limits: ")
    assert f"\n### Broken limits\n\n- `{BROKEN}`: `calls(@transitions)" in summary
    assert (session.path / "page.md").read_text() == f"{summary}\n"


def test_a_page_that_cannot_be_written_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    line = write_summary(tmp_path, "text")
    assert line.startswith(f"schedprof: cannot append the summary to {str(tmp_path)!r}")
    assert (tmp_path / "summary.md").read_text() == "text"


def test_junit_has_figures_and_a_broken_limit_is_a_failure(session: Session) -> None:
    suite = ElementTree.parse(session.path / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    broken, kept = ([(p.get("name"), p.get("value")) for p in case[0]] for case in suite)
    assert ("schedprof_limit", "fail: calls(@transitions) <= 0.001") in broken
    assert ("schedprof_limit", "pass: calls(@transitions) <= 1000") in kept
    found = dict(kept)
    assert (found["schedprof_verdict"], found["schedprof_counts_tasks"]) == ("pass", "20")
    assert Path(str(found["schedprof_artifacts"])).parent.parent == session.run
    assert ("schedprof_cputime_artifact", "scheduler.cputime.speedscope.json") in kept
    assert float(str(found["schedprof_counts_transitions"])) > 1
    shares = [float(str(value)) for name, value in kept if "cputime_share_" in str(name)]
    assert 0.5 < sum(shares) <= 1.001
