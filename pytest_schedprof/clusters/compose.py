"""A project of docker compose: start, inspect and remove its containers."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_schedprof.clusters import compose_guard as compose_guard
from pytest_schedprof.clusters.options import NOTHING
from pytest_schedprof.errors import ClusterError

BUILDING_S = 900.0
"""Limit for starting a project; the first start builds or pulls images."""

INSPECT_S = 60.0
DOWN_S = 60.0
LAST_LINES = 3

ENGINE_PROBLEMS = {
    "permission denied": "it is not open to this user: add the user to group docker, or be root",
    "cannot connect": "start it, or say in DOCKER_HOST where it is",
    "failed to connect": "start it, or say in DOCKER_HOST where it is",
}
"""Remedies for errors of `docker`, by a part of its message in lower case."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a project in its current state."""

    id: str
    service: str
    is_running: bool
    health: str
    """`starting`, `healthy` or `unhealthy`; empty without a health check."""
    exit_code: int
    is_out_of_memory: bool


class Compose:
    """A project with a random name, so that sessions do not share containers."""

    def __init__(self, files: Sequence[Path], variables: Mapping[str, str] = NOTHING) -> None:
        """Name a project of these files, all of whose services get these variables."""
        self.project = f"schedprof-{uuid.uuid4().hex[:8]}"
        self._directory = files[0].parent
        each_file = [part for file in files for part in ("--file", str(file))]
        self._command = [*_compose(), "--project-name", self.project, *each_file]
        self._variables = variables
        self._overlay: Path | None = None
        """A file with the variables, read after the others."""
        self._guard: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Build missing images and start all containers.

        Raises:
            ClusterError: with the last output of compose.
        """
        if self._variables:
            self._add_overlay()
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", compose_guard.__file__, *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            start_new_session=True,  # a Ctrl-C is for the session, which closes this
        )
        status, said = self._answer()
        if status:
            raise ClusterError(f"schedprof: {self._command[0]} up failed: {last_lines(said)}")

    def _add_overlay(self) -> None:
        """Write a file that gives the variables to each service; JSON is YAML, too."""
        answer = _run([*self._command, "config", "--services"], cwd=self._directory)
        if answer.returncode:
            said = last_lines(answer.stderr.decode(errors="replace"))
            raise ClusterError(f"schedprof: {self._command[0]} config failed: {said}")
        texts = {name: text.replace("$", "$$") for name, text in self._variables.items()}
        services = {name: {"environment": texts} for name in answer.stdout.decode().split()}
        descriptor, path = tempfile.mkstemp(prefix="schedprof-compose-", suffix=".json")
        self._overlay = Path(path)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"services": services}, file)
        self._command += ["--file", path]

    def _answer(self) -> tuple[int, str]:
        assert self._guard is not None
        assert self._guard.stdout is not None
        if not select.select([self._guard.stdout], [], [], BUILDING_S)[0]:
            raise ClusterError(
                f"schedprof: {self._command[0]} up was not done within {BUILDING_S:g} s; "
                "build the images beforehand"
            )
        line = self._guard.stdout.readline()
        status, said = json.loads(line) if line else (1, "it ended without a word")
        return status, said

    def containers(self) -> list[Container]:
        """Return all containers of the project, also those that ended."""
        label = f"label=com.docker.compose.project={self.project}"
        ids = _docker("ps", "--all", "--quiet", "--no-trunc", "--filter", label).split()
        return [_container(each) for each in json.loads(_docker("inspect", *ids))] if ids else []

    def port(self, service: str, port: int) -> str:
        """Return where a port of a service is published, as `127.0.0.1:32768`, or an empty text."""
        answer = _run([*self._command, "port", service, str(port)], cwd=self._directory)
        found = answer.stdout.decode().strip()
        return "" if found.endswith(":0") else found

    def last_words(self, container: Container) -> str:
        """Return the last lines of a container's log."""
        return last_lines(_docker("logs", "--tail", "20", container.id, merged=True))

    def log(self, container: Container) -> bytes:
        """Return the end of a container's log."""
        return _docker("logs", "--tail", "10000", container.id, merged=True).encode()

    def down(self) -> None:
        """Stop and remove containers, networks and volumes."""
        process, self._guard = self._guard, None
        if process is not None:
            self._end(process)
        if self._overlay is not None:
            self._overlay.unlink(missing_ok=True)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(
                b"\n"
            )  # closing is not enough if a child of the tests has the pipe open, too
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            if process.wait(DOWN_S):  # it was killed, or docker failed
                self._remove()
        except subprocess.TimeoutExpired:
            pass  # leave it running: nothing else would remove the containers
        process.stdout.close()

    def _remove(self) -> None:
        """Remove the project from here, because the process that should have done it was killed.

        Raises:
            ClusterError: with what docker says, and the command that removes the project.
        """
        command = [*self._command, *compose_guard.DOWN]
        answer = _run(command, cwd=self._directory)
        if answer.returncode:
            said = last_lines(answer.stderr.decode(errors="replace"))
            raise ClusterError(
                f"schedprof: containers may be left, because docker refuses to remove them ({said})"
                f"; remove them with: {' '.join(command)}"
            )


def wait_until(deadline: float, is_so: Callable[[], bool]) -> bool:
    """Poll a condition; return whether it became true before the deadline."""
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def last_lines(text: str) -> str:
    """Return the last lines of a text, joined into one."""
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
    """Run a command of `docker` and return its output.

    Raises:
        ClusterError: with its error message and remedies.
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
            timeout=INSPECT_S,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"schedprof: {' '.join(command[:2])} gave no answer within {INSPECT_S:g} s; is the "
            "Docker engine well?"
        ) from None


def _compose() -> list[str]:
    """Return the command of compose, after checking that an engine answers.

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
