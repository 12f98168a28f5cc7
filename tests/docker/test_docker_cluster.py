"""Tests of `--schedprof-cluster=docker`: the plugin starts containers and takes them down."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers import DOCKER, build, output
from support import Project, wait_for

FILE = f"--schedprof-cluster-option=compose_file={DOCKER / 'docker-compose.yml'}"
ARGUMENTS = ("--schedprof-cluster=docker", "-p", "no:docker_compose")

WORK = """
from operator import neg

@pytest.mark.schedprof(
    "calls(distributed.scheduler:SchedulerState._transition) <= 6.5", backend="counts"
)
@pytest.mark.parametrize("number", [1, 2])
def test_it(schedprof_scheduler, number):
    assert len(schedprof_scheduler.workers) == 2
    wait(schedprof_scheduler.client.map(neg, range(200), pure=False))
"""

SATURATION = "distributed.scheduler.worker-saturation"

SETTING = f"""
import dask

@pytest.mark.schedprof(backend="counts", rounds=2)
def test_it(schedprof_scheduler):
    print("saturation", schedprof_scheduler.client.run_on_scheduler(
        dask.config.get, "{SATURATION}"
    ))
    wait(schedprof_scheduler.client.map(abs, range(200), pure=False))
"""

HANGS = """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    print("ready", flush=True)
    time.sleep(60)
"""

KILLS = """
import subprocess

@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    (container,) = schedprof_scheduler.cluster._schedulers()
    subprocess.run(["docker", "kill", container.id], check=True)
    time.sleep(0.5)
"""


KILLS_KEEPER = f"""
import psutil
{WORK}
    for child in psutil.Process().children():
        is_running = child.status() != psutil.STATUS_ZOMBIE  # the test before has killed it
        if is_running and "compose_guard" in str(child.cmdline()):
            child.kill()
"""


def projects() -> set[str]:
    """Compose projects that still have a container or a network."""
    form = '{{.Label "com.docker.compose.project"}}'
    listed = output("docker", "ps", "--all", "--format", form)
    return {*f"{listed}\n{output('docker', 'network', 'ls', '--format', form)}".split()}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Check that all containers and networks of the test are gone at its end."""
    before = projects()
    yield
    assert projects() <= before


def test_another_setting_is_compared(project: Project) -> None:
    against = f"--schedprof-against=config:{SATURATION}=inf"
    # Containers take longer than the default on a busy machine.
    patient = "--schedprof-timeout=100"
    result = project.run_test(SETTING, *ARGUMENTS, FILE, against, patient, "-s", timeout_s=280)
    result.assert_outcomes(failed=1)  # queuing costs a task half as many bytecodes more
    result.stdout.fnmatch_lines([f"schedprof: regressed against 'config:{SATURATION}=inf'*"])
    assert {"saturation 1.1", "saturation inf"} <= {*map(str.strip, result.outlines)}
    result.stdout.fnmatch_lines([f"*settings that differ: {SATURATION} (inf before, 1.1 now)"])


def test_a_setting_that_dask_refuses_is_named(project: Project) -> None:
    option = f"--schedprof-cluster-option=config.{SATURATION}=banana"
    result = project.run_test(SETTING, *ARGUMENTS, FILE, option, timeout_s=200)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"schedprof: dask refuses config.{SATURATION}=banana: *"])


def test_other_workers_are_those_of_another_file(project: Project) -> None:
    result = project.run_test(SETTING, *ARGUMENTS, FILE, "--schedprof-against=workers=3")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["schedprof: workers has no effect on cluster 'docker'*"])


def test_one_project_for_the_session_is_removed_though_its_keeper_was_killed(
    project: Project,
) -> None:
    result = project.run_test(KILLS_KEEPER, *ARGUMENTS, FILE, "--schedprof=counts", timeout_s=120)
    result.assert_outcomes(passed=2)
    records = list(project.results().values())
    assert {record.cluster.kind for record in records} == {"docker"}
    assert len({record.cluster.address for record in records}) == 1


def test_another_minor_version_of_python(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every backend's agent runs in an image of Debian trixie."""
    image = {"BASE_IMAGE": "schedprof-base:trixie", "SCHEDPROF_IMAGE": "schedprof-dask:trixie"}
    build(**image)
    for name, value in image.items():
        monkeypatch.setenv(name, value)
    backends = "--schedprof=pyspy,cputime,counts,viztracer,cprofile"
    result = project.run_test(WORK, *ARGUMENTS, FILE, backends, timeout_s=120)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["note: Python is 3.* where the tests run and 3.13.*"])
    for record in project.results().values():
        assert record.troubles == ()
        assert all(backend.artifacts for backend in record.backends)
        for limit in record.limits:  # of counts and of cprofile
            assert 5.5 < limit.findings[0].estimate.value < 6.5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_session_that_is_interrupted_or_killed(project: Project, number: signal.Signals) -> None:
    before = projects()
    project.write(HANGS)
    (project.path / "pytest.ini").write_text(
        f"[pytest]\naddopts = {' '.join(ARGUMENTS)} {FILE}\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    with project.running("ready") as process:
        assert not projects() <= before
        process.send_signal(number)
    wait_for(lambda: projects() <= before, "containers and networks to go", 30)


def test_container_that_dies_during_a_test(project: Project) -> None:
    result = project.run_test(KILLS, *ARGUMENTS, FILE, timeout_s=120)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["schedprof: container 'scheduler' exited with 137*log ends*"])


def one_service(path: Path, **service: object) -> str:
    """Write a compose file of one service; return the option for it."""
    file = path / "compose.yml"
    file.write_text(json.dumps({"services": {"only": service}}))
    return f"--schedprof-cluster-option=compose_file={file}"


IMAGE = "schedprof-dask"
SLEEPS = {"image": IMAGE, "command": "sleep 60"}


@pytest.mark.parametrize(
    ("service", "option", "message"),
    [
        (SLEEPS, "", "*has no service 'scheduler'; known: only;*service=NAME*"),
        (SLEEPS, "service=only", "*service 'only' publishes no port 8786: add ports:*"),
        (
            {"image": IMAGE, "command": "sh -c 'echo no such thing >&2; exit 3'"},
            "service=only",
            "*container 'only' exited with 3; its log ends: no such thing*",
        ),
        ({"build": "."}, "service=only", "*docker*compose* up failed:*FROM nothing*"),
        (
            {
                "image": IMAGE,
                "command": "python3 -m http.server 8786",
                "ports": ["127.0.0.1::8786"],
            },
            "service=only",
            "schedprof: no scheduler answers at *that is a web server*",
        ),
    ],
    ids=["service", "port", "exit", "build", "no-dask"],
)
def test_project_that_is_no_cluster(
    project: Project, service: dict[str, object], option: str, message: str
) -> None:
    (project.path / "Dockerfile").write_text("FROM nothing:at-all\nRUN false\n")
    options = [f"--schedprof-cluster-option={option}"] if option else []
    result = project.run_test(
        WORK, *ARGUMENTS, one_service(project.path, **service), *options, "-k", "1", timeout_s=120
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_port_that_is_taken(project: Project) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [f"127.0.0.1:{taken.getsockname()[1]}:8786"]
        option = one_service(project.path, **SLEEPS, ports=ports)
        result = project.run_test(WORK, *ARGUMENTS, option, "-k", "1", timeout_s=120)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*compose* up failed:*{ports[0].split(':')[1]}*"])


def test_no_engine(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{project.path}/nobody.sock")
    result = project.run_test(WORK, *ARGUMENTS, FILE, "-k", "1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Docker engine refuses: *nobody.sock*DOCKER_HOST*"])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give its rights away")
def test_engine_that_is_not_open_to_the_user(project: Project) -> None:
    """Run as root without root's right to others' files."""
    path = project.path / "docker.sock"
    project.write(WORK)
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(path))
        closed.listen()
        os.chown(path, 65534, 65534)
        path.chmod(0o600)
        done = subprocess.run(
            [
                *("setpriv", "--bounding-set", "-dac_override,-dac_read_search"),
                *(sys.executable, "-m", "pytest", *ARGUMENTS, FILE, "-k", "1"),
            ],
            cwd=project.path,
            env=os.environ | {"DOCKER_HOST": f"unix://{path}"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert "add the user to group docker, or be root" in done.stdout
