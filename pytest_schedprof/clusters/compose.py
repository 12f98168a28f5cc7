"""A project of docker compose: containers that are started, looked at and taken down together."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_schedprof.clusters import keeper
from pytest_schedprof.errors import ClusterError

BUILDING_S = 900.0
"""Images are built or pulled when a project is started for the first time."""

LOOK_S = 60.0
DOWN_S = 60.0
LAST_LINES = 3

ENGINE_PROBLEMS = {
    "permission denied": "it is not open to this user: add the user to group docker, or be root",
    "cannot connect": "start it, or say in DOCKER_HOST where it is",
    "failed to connect": "start it, or say in DOCKER_HOST where it is",
}
"""By what `docker` says, in lower case."""


@dataclass(frozen=True, slots=True)
class Container:
    """One of a project's, as the engine sees it now."""

    id: str
    service: str
    is_running: bool
    health: str
    """`starting`, `healthy` or `unhealthy`; empty for one that has no check."""
    exit_code: int
    is_out_of_memory: bool


class Compose:
    """One project of its own name, so that sessions do not meet."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.project = f"schedprof-{uuid.uuid4().hex[:8]}"
        self._directory = files[0].parent
        each_file = [part for file in files for part in ("--file", str(file))]
        self._command = [*_compose(), "--project-name", self.project, *each_file]
        self._keeper: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Build what is missing and start all containers.

        Raises:
            ClusterError: with what compose says.
        """
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            start_new_session=True,  # a Ctrl-C is for the session, which then closes this
        )
        status, said = self._answer()
        if status:
            raise ClusterError(f"schedprof: {self._command[0]} up failed: {last_lines(said)}")

    def _answer(self) -> tuple[int, str]:
        assert self._keeper is not None
        assert self._keeper.stdout is not None
        if not select.select([self._keeper.stdout], [], [], BUILDING_S)[0]:
            raise ClusterError(
                f"schedprof: {self._command[0]} up was not done within {BUILDING_S:g} s; "
                "build the images beforehand"
            )
        line = self._keeper.stdout.readline()
        status, said = json.loads(line) if line else (1, "it ended without a word")
        return status, said

    def containers(self) -> list[Container]:
        """All of the project, also those that ended."""
        label = f"label=com.docker.compose.project={self.project}"
        ids = _docker("ps", "--all", "--quiet", "--no-trunc", "--filter", label).split()
        return [_container(each) for each in json.loads(_docker("inspect", *ids))] if ids else []

    def port(self, service: str, port: int) -> str:
        """Where a port of a service can be reached, as `127.0.0.1:32768`; empty if nowhere."""
        answer = _run([*self._command, "port", service, str(port)], cwd=self._directory)
        found = answer.stdout.decode().strip()
        return "" if found.endswith(":0") else found

    def last_words(self, container: Container) -> str:
        """What a container said in the end."""
        return last_lines(_docker("logs", "--tail", "20", container.id, merged=True))

    def down(self) -> None:
        """End and remove containers, networks and volumes."""
        process, self._keeper = self._keeper, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(b"\n")  # a child of the tests may have the pipe open, too
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            process.wait(DOWN_S)
        except subprocess.TimeoutExpired:
            pass  # it is at it, and nobody else would take them down
        process.stdout.close()


def wait_until(deadline: float, is_so: Callable[[], bool]) -> bool:
    """Ask until it is so, or too late."""
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def last_lines(text: str) -> str:
    """The end of what somebody said, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-LAST_LINES:]) or "it said nothing"


def _container(found: dict[str, Any]) -> Container:
    state = found["State"]
    return Container(
        id=found["Id"],
        service=found["Config"]["Labels"]["com.docker.compose.service"],
        is_running=state["Running"],
        health=state.get("Health", {}).get("Status", ""),
        exit_code=state["ExitCode"],
        is_out_of_memory=state["OOMKilled"],
    )


def _docker(*arguments: str, merged: bool = False) -> str:
    """What `docker` answers.

    Raises:
        ClusterError: with what it says against it.
    """
    answer = _run(["docker", *arguments], stderr=subprocess.STDOUT if merged else subprocess.PIPE)
    if answer.returncode:
        said = (answer.stdout if merged else answer.stderr).decode(errors="replace")
        remedies = [text for sign, text in ENGINE_PROBLEMS.items() if sign in said.lower()]
        raise ClusterError(
            "; ".join([f"schedprof: the Docker engine refuses: {last_lines(said)}", *remedies])
        )
    return answer.stdout.decode(errors="replace")


def _run(
    command: list[str], *, cwd: Path | None = None, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=cwd,
            timeout=LOOK_S,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"schedprof: {' '.join(command[:2])} gave no answer within {LOOK_S:g} s; is the Docker "
            "engine well?"
        ) from None


def _compose() -> list[str]:
    """The command of compose, once an engine has answered.

    Raises:
        ClusterError: if there is no engine, or no compose.
    """
    if shutil.which("docker") is None:
        raise ClusterError(
            "schedprof: cluster 'docker' needs the program docker, which is not on the PATH: "
            "install Docker (on Debian: apt-get install docker.io docker-compose)"
        )
    _docker("info", "--format", "{{.ServerVersion}}")
    if _run(["docker", "compose", "version"]).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        raise ClusterError(
            "schedprof: cluster 'docker' needs docker compose, which is not installed: install "
            "its plugin for docker, or docker-compose (on Debian: apt-get install docker-compose)"
        )
    return ["docker-compose"]
