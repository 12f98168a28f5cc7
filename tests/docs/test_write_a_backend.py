"""The backend that docs/write-a-backend.md builds, as an installed distribution."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import python

PAGE = Path(__file__).parents[2] / "docs" / "write-a-backend.md"
FILES: dict[str, str] = {
    name: text
    for name, text in re.findall(
        r"```(?:python|toml)\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """A project beside which the page's distribution is installed."""

    path: Path
    packages: Path

    def run(self, *arguments: str) -> str:
        """Run a module, which must succeed; return what it prints."""
        return python("-m", *arguments, cwd=self.path, PYTHONPATH=str(self.packages)).stdout


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
    python("-m", "hatchling", "build", "-t", "wheel", cwd=source)
    (wheel,) = (source / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(project.packages)
    return project


def test_the_pages_test_is_profiled_with_options_limits_and_artifacts(installed: Installed) -> None:
    assert "page of the run" in installed.run("pytest", "-p", "no:cacheprovider")
    run = next(installed.path.glob(".schedprof/*/run.json")).parent
    (record,) = run.rglob("result.json")
    (backend,) = json.loads(record.read_text())["backends"]
    assert backend["backend"] == "alarm"
    assert backend["settings"] == {"rate_hz": 100.0, "depth": 150}
    assert backend["shares"]["busy_samples"] > 10
    assert any("transition" in entry["function"] for entry in backend["shares"]["functions"])
    assert [limit["verdict"] for limit in backend["limits"]] == ["pass"]
    assert backend["artifacts"] == ["scheduler.alarm.speedscope.json"]
    assert "speedscope: drag it onto" in (record.parent / "index.html").read_text()
    shown = installed.run("pytest_schedprof", "show", "many_small")  # which does not know it
    assert re.search(r"^  scheduler.alarm.speedscope.json", shown, re.MULTILINE)


def test_what_the_second_backend_counts_is_a_figure_for_limits(
    installed: Installed, tmp_path: Path
) -> None:
    marker = '@pytest.mark.schedprof("gc_pauses <= 1000", backend="pauses")'
    text = re.sub(r"@pytest.mark.schedprof\(.*\)", marker, FILES["test_alarm.py"])
    (tmp_path / "test_pauses.py").write_text(text)
    Installed(tmp_path, installed.packages).run("pytest", "-p", "no:cacheprovider")
    (record,) = tmp_path.rglob("tests/*/result.json")
    (backend,) = json.loads(record.read_text())["backends"]
    assert [limit["verdict"] for limit in backend["limits"]] == ["pass"]
    assert backend["costs"]["whole"]["gc_pauses"] >= 0
