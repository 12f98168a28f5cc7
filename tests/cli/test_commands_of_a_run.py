"""Tests of a session's summary, and of the commands that read its run."""

from __future__ import annotations

import json
import os
import pstats
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from support import ALONE, AUTOLOAD, HEADER, INI

from pytest_schedprof.cli.main import main
from pytest_schedprof.formats.exports import EXPORTS
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.model.run import Run
from pytest_schedprof.store.records import encode, read_record

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
    *(sys.executable, "-m", "pytest", *ALONE),
    "--schedprof=cputime,counts,cprofile,viztracer",
    *("--schedprof-cluster=simulated", "--schedprof-workers=2", "--junitxml=junit.xml"),
]


@dataclass(frozen=True)
class Session:
    """A finished session."""

    path: Path
    output: str

    @property
    def runs(self) -> str:
        return str(self.path / ".schedprof")

    @property
    def run(self) -> Path:
        (run,) = (file.parent for file in self.path.glob(".schedprof/*/run.json"))
        return run


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session whose files no test may change."""
    path = tmp_path_factory.mktemp("session")
    (path / "pytest.ini").write_text(INI)
    (path / "test_it.py").write_text(BODY)
    environment = {**os.environ, AUTOLOAD: "1", "GITHUB_STEP_SUMMARY": str(path / "page.md")}
    process = subprocess.run(
        SESSION, cwd=path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert process.returncode == 1, process.stdout + process.stderr
    return Session(path, process.stdout)


@pytest.mark.slow
def test_its_summary_is_beside_its_record_and_on_the_page_of_the_job(session: Session) -> None:
    summary = (session.run / "summary.md").read_text()
    assert summary.startswith("## ❌ Scheduler performance: limits: ")
    assert f"\n### Broken limits\n\n- `{BROKEN}`: `calls(@transitions)" in summary
    assert (session.path / "page.md").read_text() == f"{summary}\n"


def test_pages_say_that_seconds_of_tracers_are_no_cpu_time(session: Session) -> None:
    for page in session.run.glob("tests/*/index.html"):
        tracers, note = page.read_text().count("seconds / task</th>"), "Seconds are by the clock"
        assert page.read_text().count(note) == tracers == 2


def test_junit_has_figures_and_a_broken_limit_is_a_failure(session: Session) -> None:
    suite = ElementTree.parse(session.path / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    broken, kept = ([(p.get("name"), p.get("value")) for p in case[0]] for case in suite)
    assert ("schedprof_limit", "fail: calls(@transitions) <= 0.001") in broken
    assert ("schedprof_limit", "pass: calls(@transitions) <= 1000") in kept
    figures = dict(kept)
    assert (figures["schedprof_verdict"], figures["schedprof_counts_tasks"]) == ("pass", "20")
    assert Path(str(figures["schedprof_artifacts"])).parent.parent == session.run
    assert ("schedprof_cputime_artifact", "scheduler.cputime.speedscope.json") in kept
    assert float(str(figures["schedprof_counts_transitions"])) > 1
    shares = [float(str(value)) for name, value in kept if "cputime_share_" in str(name)]
    assert 0.5 < sum(shares) <= 1.001


def test_records_keep_the_published_schemas(session: Session) -> None:
    docs = Path(__file__).parents[2] / "docs"
    records = [session.run / "run.json", *session.run.rglob("result.json")]
    assert len(records) == 3
    for path in records:
        schema = json.loads((docs / f"{path.stem}.schema.json").read_text())
        jsonschema.validate(json.loads(path.read_text()), schema)


def test_show_tells_all_of_a_test(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    directory = session.runs
    texts = []
    for place in ("", "/latest", f"/{session.run.name}"):
        assert main(["show", "b`c", f"{directory}{place}"]) == 0
        texts.append(capsys.readouterr().out)
    text = texts[0]
    assert texts == [text] * 3
    assert text.startswith(f"{KEPT}  passed\n  cputime: ")
    assert "  passed: calls(@transitions) <= 1000: @transitions takes " in text
    for part in ("\n  owners: ", "\n  counts: 20 tasks in ", "\ncluster: simulated, 2 workers"):
        assert part in text
    assert "\n  scheduler.viztracer.json.gz        vizviewer, or Perfetto\n" in text
    for name in ("nothing", "test_it"):
        assert main(["show", name, directory]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"schedprof: {'no test ' * (name == 'nothing')}{name!r} ")
        assert line.endswith(f"{BROKEN}, {KEPT}")


def test_a_place_without_a_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "x", str(tmp_path / "latest")]) == 1
    assert f"schedprof: no run in {str(tmp_path)!r}" in capsys.readouterr().err
    (tmp_path / "run.json").write_text("{")
    assert main(["show", "x", str(tmp_path)]) == 1
    assert "is corrupt" in capsys.readouterr().err


@pytest.mark.parametrize("form", EXPORTS)
def test_every_format_is_made_of_what_backends_left(
    session: Session, form: str, tmp_path: Path
) -> None:
    file = tmp_path / "exported"
    assert main(["export", KEPT, session.runs, "--format", form, "-o", str(file)]) == 0
    content = file.read_bytes()
    if form == "speedscope":
        assert read_speedscope(content).threads[0].stacks
    elif form == "collapsed":
        assert content.startswith(b"event loop;")
    elif form == "chrometrace":
        assert len(json.loads(content)["traceEvents"]) > 1000
    else:
        assert pstats.Stats(str(file)).total_calls > 1000  # type: ignore[attr-defined]


def test_without_a_file_it_goes_to_standard_output(
    session: Session, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    arguments = ["export", KEPT, session.runs, "--format", "chrometrace", "--backend", "cputime"]
    assert main(arguments) == 0
    assert b'"thread_name"' in capfdbinary.readouterr().out


def test_a_format_that_cannot_be_made_names_what_can(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", KEPT, session.runs, "--format", "collapsed", "--backend"]
    assert main([*arguments, "cprofile"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "collapsed needs a recording of cputime or pyspy" in line
    assert line.endswith(f"{KEPT} with cprofile: pstats")
    assert main([*arguments, "pyspy"]) == 2
    assert "only with cputime, counts, cprofile, viztracer" in capsys.readouterr().err


COMMAND = [sys.executable, "-c", "from pytest_schedprof.cli.main import main; exit(main())"]


@contextmanager
def opened(*arguments: str) -> Iterator[tuple[str, int, str]]:
    """Run `schedprof open`; yield its line, port and path. It must end on Ctrl-C."""
    command = [*COMMAND, "open", *arguments, "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address, _, path = line.partition("http://127.0.0.1:")[2].partition(" ")[0].partition("/")
        yield line, int(address), f"/{path}"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def answered(port: int, path: str, host: str = "") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": host} if host else {})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, content


def test_open_serves_a_run_and_nothing_beside_it(session: Session, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(session.run, run)
    (tmp_path / "secret").write_text("secret")
    (run / "link").symlink_to(tmp_path / "secret")
    with opened(str(run), "b`c") as (line, port, path):
        assert line.startswith(f"{run} is served at http://127.0.0.1:{port}/tests/test_it.py-")
        assert json.loads(answered(port, f"{path}result.json")[1])["test_id"] == KEPT
        assert answered(port, "/run.json") == (200, (run / "run.json").read_bytes())
        for outside in ("/../secret", "/%2e%2e/secret", "/tests/../../secret", "/link"):
            status, content = answered(port, outside)
            assert status == 404
            assert b"secret" not in content
        assert answered(port, "/run.json", host=f"elsewhere.example:{port}")[0] == 403


def test_prune_keeps_the_last_runs_and_whatever_else_there_is(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = read_record(session.run / "run.json", Run)
    for number in range(4):
        run = tmp_path / f"run-{number}"
        (run / "tests" / "one").mkdir(parents=True)
        mine = replace(record, run_id=run.name, started_at=f"2026-01-0{number + 1}T00:00:00+00:00")
        (run / "run.json").write_bytes(encode(mine))
    (tmp_path / "run-0").rename(tmp_path / "kept by hand")
    for other in ("baselines/main", "run-that-is-under-way/tests", "notes"):
        (tmp_path / other).mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "run.json").write_text("no record")
    before = {path.name for path in tmp_path.iterdir()}

    def pruned(*arguments: str) -> set[str]:
        assert main(["prune", str(tmp_path), *arguments]) == 0
        return before - {path.name for path in tmp_path.iterdir()}

    assert pruned("--keep", "2", "--dry-run") == set()
    assert "1 runs would be removed" in capsys.readouterr().out
    assert pruned("--keep", "2") == {"run-1"}
    (tmp_path / "latest").symlink_to(tmp_path / "run-2")
    assert pruned("--keep", "1") == {"run-1"}
    (tmp_path / "latest").unlink()
    assert pruned("--keep", "1") == {"run-1", "run-2"}
    for wrong in ("0", "-1", "all"):
        assert main(["prune", str(tmp_path), f"--keep={wrong}"]) == 2
    assert main(["prune", str(tmp_path / "run-3"), "--keep=1"]) == 2
