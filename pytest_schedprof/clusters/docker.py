"""A cluster in containers: a compose project that runs as long as the session."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pytest_schedprof.clusters.compose import Compose, Container, wait_until
from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.clusters.options import config_of, is_encrypted, with_settings
from pytest_schedprof.errors import ClusterError, SettingsError

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
        self._protocol = "tls" if is_encrypted(options) else "tcp"
        files = compose_files(options.get("compose_file", ""))
        self._compose = Compose(files, environment_of(options))
        try:
            self._start(timeout_s)
        except ClusterError as error:
            self.close()
            raise type(error)(with_settings(str(error), options)) from None
        except BaseException:
            self.close()
            raise

    def _start(self, timeout_s: float) -> None:
        self._compose.up()
        self._wait_until_ready(time.monotonic() + timeout_s, timeout_s)
        self.address = f"{self._protocol}://{self._place()}"

    @classmethod
    def start(cls, spec: ClusterSpec, *, timeout_s: float) -> DockerCluster:
        """Start the containers and wait until all of them are healthy."""
        return cls(timeout_s=timeout_s, options=dict(spec.options))

    def _wait_until_ready(self, deadline: float, timeout_s: float) -> None:
        """Wait until all containers with a health check are healthy.

        Raises:
            ClusterError: at once if a container ends, or if they are not healthy in time.
        """
        if not any(each.service == self._service for each in self._compose.containers()):
            self._raise_unknown_service()
        if not wait_until(deadline, lambda: not self._unready()):
            raise ClusterError(
                f"schedprof: containers were not healthy within {timeout_s:g} s; raise "
                f"--schedprof-timeout; {'; '.join(map(self._state_of, self._unready()))}"
            )

    def _unready(self) -> list[Container]:
        """Return the containers whose health check has not succeeded yet."""
        containers = self._compose.containers()
        for each in containers:
            if _has_failed(each) or (each.service == self._service and not each.is_running):
                raise ClusterError(f"schedprof: {self._end_of(each)}")
        return [each for each in containers if each.health not in ("", "healthy")]

    def _raise_unknown_service(self) -> None:
        known = ", ".join(sorted({each.service for each in self._compose.containers()}))
        raise SettingsError(
            f"schedprof: the compose file has no service {self._service!r}; known: {known}; say "
            "which one is the scheduler: --schedprof-cluster-option=service=NAME"
        )

    def _place(self) -> str:
        """Return the host and port at which this machine reaches the scheduler."""
        found = self._compose.port(self._service, self._port)
        if not found:
            raise ClusterError(
                f"schedprof: service {self._service!r} publishes no port {self._port}: add "
                f'ports: ["127.0.0.1::{self._port}"] to it, or say which port the scheduler has: '
                "--schedprof-cluster-option=port=NUMBER"
            )
        host, _, port = found.rpartition(":")
        return f"{_engine_host() if host in ('0.0.0.0', '::', '[::]') else host}:{port}"

    def death(self, patience_s: float = 0) -> str | None:
        """Return how the scheduler's container ended, or why it cannot be inspected."""
        try:
            wait_until(time.monotonic() + patience_s, lambda: not self._is_running())
            return None if self._is_running() else "; ".join(map(self._end_of, self._schedulers()))
        except ClusterError as error:
            return str(error).removeprefix("schedprof: ")

    def _is_running(self) -> bool:
        return any(each.is_running for each in self._schedulers())

    def _schedulers(self) -> list[Container]:
        """Return the scheduler's container; several if its service was scaled."""
        found = [each for each in self._compose.containers() if each.service == self._service]
        if not found:
            raise ClusterError(f"schedprof: the container {self._service!r} was removed")
        return found

    def _end_of(self, container: Container) -> str:
        memory = ", out of memory" if container.is_out_of_memory else ""
        how = f"exited with {container.exit_code}{memory}"
        return f"container {container.service!r} {how}; {self._log_of(container)}"

    def _state_of(self, container: Container) -> str:
        return f"container {container.service!r} is {container.health}; {self._log_of(container)}"

    def _log_of(self, container: Container) -> str:
        return f"its log ends: {self._compose.last_words(container)}"

    def log(self) -> bytes:
        """Return the end of the log of the scheduler's container."""
        try:
            return b"".join(self._compose.log(each) for each in self._schedulers())
        except ClusterError:
            return b""  # the container was removed

    def is_whole(self) -> bool:
        """Return whether the scheduler runs and no other container has failed."""
        return not self.death() and not any(map(_has_failed, self._compose.containers()))

    def close(self) -> None:
        """Remove the project."""
        self._compose.down()


def environment_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which containers get the options of dask."""
    return {
        f"DASK_{key.replace('.', '__').replace('-', '_').upper()}": options[f"config.{key}"]
        for key in config_of(options)
    }


def compose_files(given: str) -> list[Path]:
    """Return the files that an option names, or the first of the usual files that exists.

    Raises:
        SettingsError: if a file does not exist.
    """
    if not given:
        found = [Path(name).absolute() for name in USUAL_FILES if Path(name).exists()]
        if not found:
            raise SettingsError(
                f"schedprof: cluster 'docker' finds none of {', '.join(USUAL_FILES)}; name yours: "
                "--schedprof-cluster-option=compose_file=PATH"
            )
        return found[:1]
    paths = [Path(name).absolute() for name in given.split(os.pathsep)]
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
    """Return whether a container ended with an error."""
    return not container.is_running and container.exit_code != 0


def _engine_host() -> str:
    """Return the machine that publishes ports: this one, unless DOCKER_HOST names another."""
    return urlsplit(os.environ.get("DOCKER_HOST", "")).hostname or "127.0.0.1"
