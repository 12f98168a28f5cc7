"""The backend that docs/write-a-backend.md builds, as an installed distribution."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_schedprof.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "write-a-backend.md"
FILES: dict[str, str] = {
    name: text
    for name, text in re.findall(
        r"```(?:python|toml)\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
}
TIMEOUT_S = 500

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """A project beside which the page's distribution is installed."""

    path: Path
    packages: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PYTHONPATH": str(self.packages)}
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build a wheel of the page's files, and unpack it as installers do."""
    source = tmp_path_factory.mktemp("source")
    (source / "schedprof_alarm").mkdir()
    (source / "schedprof_alarm" / "__init__.py").touch()
    for name, text in FILES.items():
        (source / name).write_text(text)
    project = Installed(tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("packages"))
    (project.path / "test_alarm.py").write_text(FILES["test_alarm.py"])
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=source,
        capture_output=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    (wheel,) = (source / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(project.packages)
    return project


@pytest.fixture
def environment(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands run in this process as in one that the page's distribution is installed for."""
    monkeypatch.syspath_prepend(installed.packages)
    monkeypatch.chdir(installed.path)


@pytest.fixture(scope="module")
def profiled(installed: Installed) -> Installed:
    """The same after a session with the page's test."""
    session = installed.run("pytest", "-p", "no:cacheprovider")
    assert session.returncode == 0, session.stdout + session.stderr
    assert "page of the run" in session.stdout
    return installed


def test_the_pages_test_is_profiled_with_options_limits_and_artifacts(profiled: Installed) -> None:
    run = next(profiled.path.glob(".schedprof/*/run.json")).parent
    (record,) = run.rglob("result.json")
    (backend,) = json.loads(record.read_text())["backends"]
    assert backend["backend"] == "alarm"
    assert backend["settings"] == {"rate_hz": 100.0, "depth": 150}
    assert backend["shares"]["busy_samples"] > 10
    assert any("transition" in entry["function"] for entry in backend["shares"]["functions"])
    assert [limit["verdict"] for limit in backend["limits"]] == ["pass"]
    assert backend["artifacts"] == ["scheduler.alarm.speedscope.json"]
    assert "speedscope: drag it onto" in (record.parent / "index.html").read_text()


def test_its_file_is_shown_with_what_opens_it(
    profiled: Installed, environment: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "many_small"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  scheduler.alarm.speedscope.json  speedscope$", shown, re.MULTILINE)


def test_the_doctor_tries_it_out(environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--backend", "alarm"]) == 0
    examined = capsys.readouterr().out
    assert re.search(r"^alarm +yes, recorded and read", examined, re.MULTILINE)
    assert examined.endswith("\nalarm works here\n")


def test_what_the_second_backend_counts_is_a_figure_for_limits(
    installed: Installed, tmp_path: Path
) -> None:
    marker = '@pytest.mark.schedprof("gc_pauses <= 1000", backend="pauses")'
    text = re.sub(r"@pytest.mark.schedprof\(.*\)", marker, FILES["test_alarm.py"])
    (tmp_path / "test_pauses.py").write_text(text)
    session = Installed(tmp_path, installed.packages).run("pytest", "-p", "no:cacheprovider")
    assert session.returncode == 0, session.stdout + session.stderr
    (record,) = tmp_path.rglob("tests/*/result.json")
    (backend,) = json.loads(record.read_text())["backends"]
    assert [limit["verdict"] for limit in backend["limits"]] == ["pass"]
    assert backend["costs"]["whole"]["gc_pauses"] >= 0


def test_one_that_cannot_be_loaded_is_an_error_for_those_who_ask_for_it_alone(
    installed: Installed, tmp_path: Path
) -> None:
    (metadata,) = installed.packages.glob("*.dist-info")
    (tmp_path / metadata.name).symlink_to(metadata)  # without the package
    (tmp_path / "test_it.py").write_text("def test_it(): pass")
    broken = Installed(tmp_path, tmp_path)
    chosen = broken.run("pytest", "--schedprof=alarm", "-p", "no:cacheprovider")
    assert chosen.returncode == pytest.ExitCode.USAGE_ERROR
    label = "entry point 'schedprof_alarm.backend:AlarmBackend' of schedprof-alarm 1.0"
    assert f"schedprof: backend 'alarm' ({label}) cannot be used: " in chosen.stderr
    other = broken.run("pytest", "--schedprof=cputime", "-p", "no:cacheprovider")
    assert other.returncode == 0, other.stdout + other.stderr
