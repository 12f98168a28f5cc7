"""The compose files of docker/ with their overlays, up for the duration of a block."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from support import wait_for

DOCKER = Path(__file__).parents[2] / "docker"


def output(*command: str, **environment: str) -> str:
    """Run a command in docker/ and return its output.

    docker-compose 1.29 looks for seccomp profiles in the current directory.
    """
    done = subprocess.run(
        command, cwd=DOCKER, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def engine_problem() -> str:
    """Return why no Docker engine answers, or "" if one does."""
    try:
        output("docker", "version", "--format", "{{.Server.Version}}")
    except (OSError, AssertionError) as error:
        return str(error)
    return ""


def compose_command() -> list[str]:
    """Docker's own compose, or docker-compose 1.29, which pytest-docker-compose installs."""
    is_plugin = subprocess.run(["docker", "compose", "version"], capture_output=True)
    return ["docker", "compose"] if is_plugin.returncode == 0 else ["docker-compose"]


def build(**environment: str) -> None:
    """Build the image, which all services use."""
    files = ("--file", "docker-compose.yml")
    output(*compose_command(), *files, "build", "scheduler", **environment)


def wait_until_healthy(containers: Iterable[str]) -> None:
    """Wait until the health checks pass; fail at once if a container has ended."""

    def is_healthy(container: str) -> bool:
        form = "{{.State.Status}} {{.State.Health.Status}}"
        state, health = output("docker", "inspect", "--format", form, container).split()
        assert state == "running", output("docker", "logs", container)
        return health == "healthy"

    for container in containers:
        wait_for(partial(is_healthy, container), f"{container} to be healthy", 60)


@contextmanager
def composed(
    *overlays: str | Path, services: Iterable[str] = ("scheduler",), **environment: str
) -> Iterator[str]:
    """Start services in a project of their own and yield the scheduler's host and port.

    They are taken down after the block.
    """
    files = ["docker-compose.yml", *(str(overlay) for overlay in overlays)]
    command = [*compose_command(), "--project-name", "schedprof-overlays"]
    command += [word for file in files for word in ("--file", file)]
    try:
        output(*command, "up", "--detach", *services, **environment)
        wait_until_healthy(output(*command, "ps", "--quiet", **environment).split())
        yield output(*command, "port", "scheduler", "8786", **environment)
    finally:
        output(*command, "down", "--timeout", "5", **environment)
