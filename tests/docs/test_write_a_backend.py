"""The backend that docs/write-a-backend.md builds, as an installed distribution."""

from __future__ import annotations

import json
import re
import zipfile
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


@pytest.mark.slow
def test_the_pages_backends_profile_with_options_limits_and_artifacts(tmp_path: Path) -> None:
    """From a wheel of the page's files, unpacked as installers do."""
    source, packages, project = (tmp_path / name for name in ("source", "packages", "project"))
    (source / "schedprof_alarm").mkdir(parents=True)
    (source / "schedprof_alarm" / "__init__.py").touch()
    for name, text in FILES.items():
        (source / name).write_text(text)
    python("-m", "hatchling", "build", "-t", "wheel", cwd=source)
    (wheel,) = (source / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)

    project.mkdir()
    alarm = FILES["test_alarm.py"]
    marker = '@pytest.mark.schedprof("gc_pauses <= 1000", backend="pauses")'
    (project / "test_alarm.py").write_text(alarm)
    (project / "test_pauses.py").write_text(re.sub(r"@pytest.mark.schedprof\(.*\)", marker, alarm))

    def run(*arguments: str) -> str:
        return python("-m", *arguments, cwd=project, PYTHONPATH=str(packages)).stdout

    assert "page of the run" in run("pytest", "-p", "no:cacheprovider")
    sampled, counted = sorted(project.glob(".schedprof/2*/tests/*/result.json"))
    (backend,) = json.loads(sampled.read_text())["backends"]
    assert backend["backend"] == "alarm"
    assert backend["settings"] == {"rate_hz": 100.0, "depth": 150}
    assert backend["shares"]["busy_samples"] > 10
    assert any("transition" in entry["function"] for entry in backend["shares"]["functions"])
    assert [limit["verdict"] for limit in backend["limits"]] == ["pass"]
    assert backend["artifacts"] == ["scheduler.alarm.speedscope.json"]
    assert "speedscope: drag it onto" in (sampled.parent / "index.html").read_text()
    shown = run("pytest_schedprof", "show", "test_alarm")  # which does not know it
    assert re.search(r"^  scheduler.alarm.speedscope.json", shown, re.MULTILINE)

    (backend,) = json.loads(counted.read_text())["backends"]
    assert [limit["verdict"] for limit in backend["limits"]] == ["pass"]
    assert backend["costs"]["whole"]["gc_pauses"] >= 0
