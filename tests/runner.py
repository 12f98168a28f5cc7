"""Run a workflow for real on this machine, by `act`, as GitHub's runner would.

The actions of others cannot be fetched here. In their places stand small ones in tests/actions: the
one that sets up Python puts an environment on the path, and the one that uploads sends an archive
to the server that stands for GitHub.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from forge_server import TOKEN, ForgeServer
from support import environment_behind

ROOT = Path(__file__).parents[1]
ACTIONS = Path(__file__).parent / "actions"

OWN = "dask-contrib/pytest-schedprof@main"
NEEDED = ("action.yml", "comment", "pyproject.toml", "README.md", "LICENSE", "pytest_schedprof")
"""What of this repository the action needs."""

PIP = {"PIP_NO_BUILD_ISOLATION": "0"}
"""Builds with what is installed here, since an environment for each build takes long. As pip reads
it, 0 turns the isolation off."""

TIMEOUT_S = 300


class Runner:
    """A repository whose workflow is run."""

    def __init__(self, path: Path, server: ForgeServer, workflows: dict[str, str]) -> None:
        self.path = path
        self.server = server
        self.repository = path / "repository"
        self.action = path / "action"
        for name, text in workflows.items():
            self.write(f".github/workflows/{name}.yml", text)
        self.action.mkdir()
        for name in NEEDED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.action / name)
        self._git("init", "--quiet", "--initial-branch=main")

    def write(self, name: str, text: str) -> None:
        """Write a file of the repository."""
        file = self.repository / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, name: str, event: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Commit everything and run the workflow for an event."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message=change")
        (self.path / "event.json").write_text(json.dumps(event))
        return subprocess.run(
            [str(Path(sys.executable).with_name("act")), *self._options(), name],
            cwd=self.repository,
            env={**_environ(), "BIN": str(self._python().parent), **PIP},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def _options(self) -> list[str]:
        replaced = {OWN: self.action}
        texts = [(ROOT / place / "action.yml").read_text() for place in ("", "comment")]
        for used in re.findall(r"uses: (\S+@\w+)", "".join(texts)):
            replaced[used] = ACTIONS / used.partition("@")[0].partition("/")[2]
        return [
            f"--eventpath={self.path / 'event.json'}",
            "--platform=ubuntu-latest=-self-hosted",
            f"--action-cache-path={self.path / 'cache'}",
            "--action-offline-mode",
            "--no-cache-server",
            f"--secret=GITHUB_TOKEN={TOKEN}",
            f"--env=GITHUB_API_URL={self.server.url}",
            *[f"--local-repository=https://github.com/{k}={v}" for k, v in replaced.items()],
        ]

    def _python(self) -> Path:
        """An interpreter into which the action can install; it has what this one has too."""
        python = self.path / "environment" / "bin" / "python"
        if not python.exists():
            environment_behind(self.path / "environment")
        return python

    def _git(self, *arguments: str) -> None:
        known = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        subprocess.run(["git", *known, *arguments], cwd=self.repository, check=True)


def _environ() -> dict[str, str]:
    """The environment without what our own CI and pytest set."""
    ours = ("PYTEST", "COV_", "GITHUB_", "ACTIONS_", "RUNNER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
