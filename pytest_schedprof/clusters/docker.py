"""A cluster in containers: a compose project that runs as long as the session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from pytest_schedprof.clusters import compose_guard
from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.clusters.options import config_of, is_encrypted, with_settings
from pytest_schedprof.clusters.process import readable
from pytest_schedprof.errors import ClusterError, SettingsError

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


class Container(Struct, frozen=True):
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

    def __init__(self, files: Sequence[Path], variables: Mapping[str, str]) -> None:
        """Name a project of these files, all of whose services get these variables."""
        self.project = f"schedprof-{uuid.uuid4().hex[:8]}"
        self._directory = files[0].parent
        named = [part for file in files for part in ("--file", str(file))]
        self._command = [*_compose(), "--project-name", self.project, *named]
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
        assert self._guard.stdout is not None
        if not readable([self._guard.stdout.fileno()], BUILDING_S):
            raise ClusterError(
                f"schedprof: {self._command[0]} up was not done within {BUILDING_S:g} s; "
                "build the images beforehand"
            )
        line = self._guard.stdout.readline()
        status, said = json.loads(line) if line else (1, "it ended without a word")
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

    def containers(self) -> list[Container]:
        """Return all containers of the project, also those that ended."""
        label = f"label=com.docker.compose.project={self.project}"
        ids = _docker("ps", "--all", "--quiet", "--no-trunc", "--filter", label).split()
        return [_container(facts) for facts in json.loads(_docker("inspect", *ids))] if ids else []

    def port(self, service: str, port: int) -> str:
        """Return where a port of a service is published, as `127.0.0.1:32768`, or an empty text."""
        answer = _run([*self._command, "port", service, str(port)], cwd=self._directory)
        place = answer.stdout.decode().strip()
        return "" if place.endswith(":0") else place

    def log(self, container: Container, lines: int) -> str:
        """Return the end of a container's log."""
        return _docker("logs", "--tail", str(lines), container.id, merged=True)

    def down(self) -> None:
        """Stop and remove containers, networks and volumes."""
        process, self._guard = self._guard, None
        try:
            if process is not None:
                self._end(process)
        finally:
            if self._overlay is not None:
                self._overlay.unlink(missing_ok=True)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # Closing is not enough if a child of the tests has the pipe open, too.
            process.stdin.write(b"\n")
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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-LAST_LINES:]) or "it said nothing"


def _container(facts: dict[str, Any]) -> Container:
    state = facts["State"]
    return Container(
        id=facts["Id"],
        service=facts["Config"]["Labels"]["com.docker.compose.service"],
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


USUAL_FILES = ("docker/docker-compose.yml", "docker-compose.yml", "compose.yaml", "compose.yml")
SERVICE, PORT = "scheduler", "8786"


class DockerCluster(Cluster):
    """Containers of a compose file; options say which of them is the scheduler."""

    kind = "docker"
    security = None
    """None: for an address with tls:// clients use dask's own configuration."""
    is_ours = True

    def __init__(self, *, timeout_s: float, options: Mapping[str, str]) -> None:
        self._service = options.get("service", SERVICE)
        self._port = _port(options.get("port", PORT))
        protocol = "tls" if is_encrypted(options) else "tcp"
        files = compose_files(options.get("compose_file", ""))
        self._compose = Compose(files, environment_of(options))
        try:
            self._compose.up()
            self._wait_until_ready(timeout_s)
            self.address = f"{protocol}://{self._place()}"
        except BaseException as error:
            self.close()
            if isinstance(error, ClusterError):
                raise type(error)(with_settings(str(error), options)) from None
            raise

    @classmethod
    def start(cls, spec: ClusterSpec, *, timeout_s: float) -> DockerCluster:
        return cls(timeout_s=timeout_s, options=dict(spec.options))

    def _wait_until_ready(self, timeout_s: float) -> None:
        """Wait until all containers with a health check are healthy.

        Raises:
            ClusterError: at once if a container ends, or if they are not healthy in time.
        """
        services = {container.service for container in self._compose.containers()}
        if self._service not in services:
            raise SettingsError(
                f"schedprof: the compose file has no service {self._service!r}; known: "
                f"{', '.join(sorted(services))}; say which one is the scheduler: "
                "--schedprof-cluster-option=service=NAME"
            )
        if not wait_until(time.monotonic() + timeout_s, lambda: not self._unready()):
            raise ClusterError(
                f"schedprof: containers were not healthy within {timeout_s:g} s; raise "
                f"--schedprof-timeout; {'; '.join(map(self._state_of, self._unready()))}"
            )

    def _unready(self) -> list[Container]:
        """Return the containers whose health check has not succeeded yet."""
        containers = self._compose.containers()
        for container in containers:
            is_scheduler = container.service == self._service
            if _has_failed(container) or (is_scheduler and not container.is_running):
                raise ClusterError(f"schedprof: {self._end_of(container)}")
        return [container for container in containers if container.health not in ("", "healthy")]

    def _place(self) -> str:
        """Return the host and port at which this machine reaches the scheduler."""
        place = self._compose.port(self._service, self._port)
        if not place:
            raise ClusterError(
                f"schedprof: service {self._service!r} publishes no port {self._port}: add "
                f'ports: ["127.0.0.1::{self._port}"] to it, or say which port the scheduler has: '
                "--schedprof-cluster-option=port=NUMBER"
            )
        host, _, port = place.rpartition(":")
        if host in ("0.0.0.0", "::", "[::]"):  # of the machine that publishes ports
            host = urlsplit(os.environ.get("DOCKER_HOST", "")).hostname or "127.0.0.1"
        return f"{host}:{port}"

    def death(self, patience_s: float = 0) -> str | None:
        try:
            wait_until(time.monotonic() + patience_s, lambda: not self._is_running())
            return None if self._is_running() else "; ".join(map(self._end_of, self._schedulers()))
        except ClusterError as error:
            return str(error).removeprefix("schedprof: ")

    def _is_running(self) -> bool:
        return any(container.is_running for container in self._schedulers())

    def _schedulers(self) -> list[Container]:
        """Return the scheduler's container; several if its service was scaled."""
        containers = self._compose.containers()
        schedulers = [container for container in containers if container.service == self._service]
        if not schedulers:
            raise ClusterError(f"schedprof: the container {self._service!r} was removed")
        return schedulers

    def _end_of(self, container: Container) -> str:
        memory = ", out of memory" if container.is_out_of_memory else ""
        end = f"exited with {container.exit_code}{memory}"
        last = last_lines(self._compose.log(container, 20))
        return f"container {container.service!r} {end}; its log ends: {last}"

    def _state_of(self, container: Container) -> str:
        last = last_lines(self._compose.log(container, 20))
        return f"container {container.service!r} is {container.health}; its log ends: {last}"

    def log(self) -> bytes:
        try:
            logs = (self._compose.log(scheduler, 10_000) for scheduler in self._schedulers())
            return "".join(logs).encode()
        except ClusterError:
            return b""  # the container was removed

    def is_whole(self) -> bool:
        return not self.death() and not any(map(_has_failed, self._compose.containers()))

    def close(self) -> None:
        self._compose.down()


def environment_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which containers get the options of dask."""
    return {
        f"DASK_{key.replace('.', '__').replace('-', '_').upper()}": options[f"config.{key}"]
        for key in config_of(options)
    }


def compose_files(names: str) -> list[Path]:
    """Return the files that an option names, or the first of the usual files that exists.

    Raises:
        SettingsError: if a file does not exist.
    """
    if not names:
        usual = [Path(name).absolute() for name in USUAL_FILES if Path(name).exists()]
        if not usual:
            raise SettingsError(
                f"schedprof: cluster 'docker' finds none of {', '.join(USUAL_FILES)}; name yours: "
                "--schedprof-cluster-option=compose_file=PATH"
            )
        return usual[:1]
    paths = [Path(name).absolute() for name in names.split(os.pathsep)]
    for path in paths:
        if not path.is_file():
            raise SettingsError(
                f"schedprof: cluster option compose_file: there is no file {str(path)!r}; several "
                f"are separated by {os.pathsep!r}"
            )
    return paths


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise SettingsError(f"schedprof: cluster option port must be a port's number, got {text!r}")
    return int(text)


def _has_failed(container: Container) -> bool:
    return not container.is_running and container.exit_code != 0
