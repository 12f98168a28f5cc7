"""Tests of addresses without a scheduler: reported at once, with what was found there instead."""

from __future__ import annotations

import logging
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import dask.config
import pytest
from distributed import Client
from distributed.security import Security
from support import Project, shares_in, somebodys_scheduler

from pytest_schedprof.control import reachability
from pytest_schedprof.control.reachability import open_line, require_scheduler
from pytest_schedprof.errors import SchedulerLostError, SettingsError


class Certificates:
    """Certificates of a new authority, as files for the parts of a cluster."""

    def __init__(self, directory: Path) -> None:
        made = Security.temporary()
        self.ca, self.cert, self.key = (directory / f"{name}.pem" for name in ("ca", "cert", "key"))
        self.ca.write_text(made.tls_ca_file)
        self.cert.write_text(made.tls_client_cert)
        self.key.write_text(made.tls_client_key)
        self.arguments = ["--tls-ca-file", str(self.ca), "--tls-cert", str(self.cert)]
        self.arguments += ["--tls-key", str(self.key)]

    def configuration(self, ca: Path | None = None) -> dict[str, str]:
        """dask's configuration for clients, optionally with another authority."""
        prefix = "distributed.comm.tls"
        pair = {f"{prefix}.client.cert": str(self.cert), f"{prefix}.client.key": str(self.key)}
        return {f"{prefix}.ca-file": str(ca or self.ca), **pair}


@dataclass
class Places:
    """Addresses that listen on this machine, and certificates."""

    certificates: Certificates
    others: Certificates
    tls: str
    tcp: str
    worker: str


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A scheduler that speaks TLS, with a worker, and one without TLS."""
    own, other, plain = (tmp_path_factory.mktemp(name) for name in ("own", "other", "plain"))
    mine = Certificates(own)
    with (
        somebodys_scheduler(own, "--host", "tls://127.0.0.1", *mine.arguments) as tls,
        somebodys_scheduler(plain, "--host", "127.0.0.1") as tcp,
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "distributed.cli.dask_worker",
                tls,
                "--no-nanny",
                *mine.arguments,
            ],
            stderr=subprocess.DEVNULL,
            cwd=own,
        ) as process,
    ):
        with (
            dask.config.set(mine.configuration()),
            Client(tls, set_as_default=False) as client,
        ):
            client.wait_for_workers(1, timeout=300)
            (worker,) = client.nthreads()
        yield Places(mine, Certificates(other), tls, tcp, worker)
        process.terminate()


class WebPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Keep dask's requests off the terminal."""


def fault(address: str, caplog: pytest.LogCaptureFixture, timeout_s: float = 300) -> str:
    """Return the message about an address; it must come once and in time."""
    caplog.set_level(logging.WARNING)
    begun_at = time.monotonic()
    with pytest.raises(SchedulerLostError) as raised:
        require_scheduler(address, None, timeout_s)
    assert time.monotonic() - begun_at < 100
    assert caplog.records == []
    text = str(raised.value)
    assert text.startswith(f"schedprof: no scheduler answers at {address!r}: ")
    return text


@pytest.mark.slow
def test_tls_and_what_is_wrong_with_it(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    mine, others = places.certificates, places.others
    assert "it needs certificates; name ca-file" in fault(places.tls, caplog)
    with dask.config.set(mine.configuration()):
        assert "both sides need tls://" in fault(places.tcp.replace("tcp", "tls"), caplog)
        assert f"that is a Worker of the scheduler at {places.tls!r}" in fault(
            places.worker, caplog
        )
        require_scheduler(places.tls, None, 300)
    with dask.config.set(others.configuration()):
        assert "CERTIFICATE_VERIFY_FAILED" in fault(places.tls, caplog)
    with dask.config.set(others.configuration(ca=mine.ca)):
        assert "both sides need tls://" in fault(places.tls, caplog, timeout_s=5)
    with dask.config.set(mine.configuration(ca=mine.ca.with_name("missing"))):
        assert "cannot be loaded: [Errno 2] No such file" in fault(places.tls, caplog)
    plain = fault(places.tls.replace("tls", "tcp"), caplog, timeout_s=5)
    assert "both sides need tls:// and certificates of one authority" in plain


@pytest.mark.slow
@pytest.mark.usefixtures("apart")  # cryptography cannot be imported twice
def test_profile_of_a_cluster_that_speaks_tls(
    places: Places, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.plugins = ("asyncio",)
    for name, value in places.certificates.configuration().items():
        variable = name.replace(".", "__").replace("-", "_").upper()
        monkeypatch.setenv(f"DASK_{variable}", value)
    result = project.run_test(
        """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(max, [1, 2]).result(timeout=200) == 2
    assert all(worker.startswith("tls://") for worker in schedprof_scheduler.workers)
    burn(schedprof_scheduler, 0.5)

@pytest.mark.asyncio
async def test_asynchronous(schedprof_scheduler):
    async with schedprof_scheduler.async_client() as client:
        assert await client.submit(max, [1, 2]) == 2
""",
        f"--schedprof-cluster={places.tls}",
    )
    result.assert_outcomes(passed=2)
    functions = shares_in(project.results()["test_it"]).functions
    assert any(share.function.endswith("burn_scheduler_cpu") for share in functions)


@pytest.mark.slow
def test_web_server(caplog: pytest.LogCaptureFixture) -> None:
    """It waits for its client to speak first."""
    with ThreadingHTTPServer(("127.0.0.1", 0), WebPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
        assert "that is a web server, such as the dashboard" in fault(address, caplog)
        server.shutdown()


@pytest.mark.slow
def test_who_keeps_silent_is_given_the_time_that_there_is(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert "no answer within 1 s" in fault(address, caplog, timeout_s=1)


def test_a_reason_is_told_though_the_time_ends_without_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reason = "no answer within 1 s (ValueError: inproc address 'a/1/b' does not match host"
    assert reason in fault("inproc://a/1/b", caplog, timeout_s=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:1", "nobody listens there; start one"),
        ("tcp://no-host.invalid:8786", "there is no such host ("),
        ("tcp://no..host:8786", "there is no such host ("),
    ],
)
def test_no_such_place(address: str, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    assert f": {reason}" in fault(address, caplog)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:8786", "unknown address scheme '127.0.0.1:8786'"),
        ("tcp://127.0.0.1", "missing port number"),
        ("tcp://127.0.0.1:99999", "port must be 1 to 65535"),
        ("udp://127.0.0.1:8786", "unknown address scheme 'udp'"),
    ],
)
def test_what_can_be_nobodys_address(address: str, reason: str) -> None:
    with pytest.raises(SettingsError, match="is no scheduler's address") as raised:
        require_scheduler(address, None, 30)
    assert f"({reason}" in str(raised.value)
    assert "give one such as tcp://127.0.0.1:8786" in str(raised.value)


def test_scheduler_that_is_just_being_started_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler starts at the same time, as after `dask scheduler &`."""
    monkeypatch.setattr(reachability, "PATIENCE_S", 300)  # a loaded machine takes long
    port = 20_000 + os.getpid() % 10_000  # outside of the kernel's range for automatic ports
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    ) as process:
        try:
            require_scheduler(f"tcp://127.0.0.1:{port}", None, 300)
        finally:
            process.terminate()


OF_ANOTHER_RELEASE = """
import asyncio, sys
from distributed import Scheduler

class Other(Scheduler):
    async def add_client(self, comm, client, **more):
        await comm.write([{"op": "stream-start", "error": "that is not spoken here"}])

    def versions(self):
        facts = super().versions()
        facts["packages"]["distributed"] = "1999.1.0"
        return facts

async def main():
    async with Other(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def fault_of(program: str) -> str:
    """Return the message about a scheduler with which dask's client does not get on."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with pytest.raises(SchedulerLostError) as raised:
            open_line(address, None, 100)
        process.communicate("", timeout=300)
    return str(raised.value).replace(repr(address), "there")


def test_scheduler_of_another_release_that_does_not_understand() -> None:
    """The difference is reported, and no client is left that keeps trying."""
    text = fault_of(OF_ANOTHER_RELEASE)
    assert "does not get on with the scheduler at there" in text
    assert "that is not spoken here" in text
    assert "and 1999.1.0 where the scheduler does; install the same" in text


@pytest.mark.parametrize("answer", ["{}[0]", "asyncio.sleep(1000)"], ids=["fails", "hangs"])
def test_scheduler_that_does_not_tell_its_versions(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "TRIAL_S", 1.0)
    text = fault_of(OF_ANOTHER_RELEASE.replace("facts = super().versions()", f"return {answer}"))
    assert text.startswith("schedprof: no scheduler answers at there within 100 s (")
    assert "that is not spoken here" in text


class Doorkeeper(socketserver.BaseRequestHandler):
    """Closes the first four connections, and forwards all later ones to a scheduler."""

    refused: ClassVar[list[object]] = []
    scheduler: ClassVar[tuple[str, int]]

    def handle(self) -> None:
        if len(self.refused) < 4:
            return self.refused.append(self.client_address)
        with socket.create_connection(self.scheduler) as inner:
            back = threading.Thread(target=pass_on, args=(inner, self.request))
            back.start()
            pass_on(self.request, inner)
            back.join()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.mark.slow
def test_what_hangs_up_is_asked_again_until_a_scheduler_is_there(places: Places) -> None:
    """Docker closes connections to a container's port while its scheduler is not up yet."""
    host, _, port = places.tcp.removeprefix("tcp://").rpartition(":")
    Doorkeeper.scheduler = host, int(port)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Doorkeeper) as server:
        threading.Thread(target=server.serve_forever).start()
        require_scheduler(f"tcp://127.0.0.1:{server.server_address[1]}", None, 300)
        server.shutdown()
    assert len(Doorkeeper.refused) == 4
