"""Tests of pyspy_on_scheduler and viztrace_scheduler, which write one file to a path."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client
from support import burn_scheduler_cpu, wait_for

from pytest_schedprof import pyspy_on_scheduler, viztrace_scheduler
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import ArtifactError, ClusterError, RecordingError, SettingsError
from pytest_schedprof.measuring.profile import Block

BOTH: list[Callable[..., Block[Path]]] = [pyspy_on_scheduler, viztrace_scheduler]


def under_way(dask_scheduler: Any = None) -> list[str]:
    return list(getattr(dask_scheduler, "_schedprof_recordings", {}))


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, cluster: LocalProcesses, control: Control) -> Iterator[None]:
    yield
    assert control.call(under_way) == []
    assert psutil.Process(cluster.pid).children() == []
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow
@pytest.mark.parametrize("profiled", BOTH)
def test_an_asynchronous_client_is_refused_by_with_and_works_with_async_with(
    cluster: LocalProcesses, tmp_path: Path, profiled: Callable[..., Block[Path]]
) -> None:
    path = tmp_path / "profile.json"

    async def main() -> None:
        async with Client(cluster.address, asynchronous=True) as client:
            with pytest.raises(SettingsError, match="use `async with`"):
                profiled(path).__enter__()
            async with profiled(path):
                await client.run_on_scheduler(burn_scheduler_cpu, 0.2)

    asyncio.run(main())
    assert "burn_scheduler_cpu" in path.read_text()


@pytest.mark.slow
def test_the_file_is_there_after_the_body_and_one_may_be_nested_in_the_other(
    client: Client, tmp_path: Path
) -> None:
    """In the order that the ancestor's example does not have."""
    inner, outer = BOTH
    with outer(tmp_path / "outer.json") as one, inner(tmp_path / "inner.json") as other:
        assert list(tmp_path.iterdir()) == []
        client.run_on_scheduler(burn_scheduler_cpu, 0.2)
    assert (one, other) == (tmp_path / "outer.json", tmp_path / "inner.json")
    for path in (one, other):
        assert "burn_scheduler_cpu" in path.read_text()
        assert json.loads(path.read_text())


def test_two_of_a_kind_are_refused_and_the_first_is_kept(client: Client, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(pyspy_on_scheduler(tmp_path / "first.json"))
        with pytest.raises(RecordingError, match="another pyspy recording is under way"):
            stack.enter_context(pyspy_on_scheduler(tmp_path / "second.json"))
        client.run_on_scheduler(burn_scheduler_cpu, 0.2)
    assert "burn_scheduler_cpu" in first.read_text()
    assert not (tmp_path / "second.json").exists()


@pytest.mark.parametrize("error", [KeyError("its own"), StopIteration(), KeyboardInterrupt()])
def test_body_that_raises_is_not_hidden_and_its_profile_is_kept(
    client: Client, tmp_path: Path, error: BaseException
) -> None:
    def body() -> None:
        client.run_on_scheduler(burn_scheduler_cpu, 0.2)
        raise error

    with pytest.raises(type(error)) as caught, pyspy_on_scheduler(tmp_path / "profile.json"):
        body()
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert "burn_scheduler_cpu" in (tmp_path / "profile.json").read_text()


def kill(cluster: LocalProcesses, client: Client) -> None:
    os.kill(cluster.pid, signal.SIGKILL)
    wait_for(lambda: client.status != "running", "the client to notice")


def die_when_called_next(cluster: LocalProcesses, client: Client) -> None:
    def arm(dask_scheduler: Any) -> None:
        import os
        import signal

        def die(*_: Any, **__: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        dask_scheduler.handlers["run_function"] = die

    client.run_on_scheduler(arm)


@pytest.mark.parametrize("die", [kill, die_when_called_next])
def test_scheduler_that_dies_in_or_after_a_body_that_raises(
    own_cluster: LocalProcesses,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    die: Callable[[LocalProcesses, Client], None],
) -> None:
    def body(client: Client) -> None:
        die(own_cluster, client)
        raise KeyError("the body's own")

    profiling = pyspy_on_scheduler(tmp_path / "profile.json", timeout=60)
    with Client(own_cluster.address) as client, pytest.raises(KeyError) as caught, profiling:
        body(client)
    notes = getattr(caught.value, "__notes__", caplog.messages)
    assert any("its profile is lost" in text for text in notes)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file/profile.json", "File exists"),
        (".", "Is a directory"),
    ],
)
def test_path_that_cannot_be_written_is_told_before_the_body(
    client: Client, tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match=f"cannot write '.*{reason}"):
        pyspy_on_scheduler(tmp_path / name).__enter__()


def test_no_client_or_one_that_is_closed_or_none_at_all(cluster: LocalProcesses) -> None:
    with pytest.raises(ClusterError, match="there is no current dask client"):
        pyspy_on_scheduler("profile.json").__enter__()
    with Client(cluster.address) as client:
        pass
    with pytest.raises(ClusterError, match=r"the client is not connected .*'closed'"):
        pyspy_on_scheduler("profile.json", client=client).__enter__()
    wrong: Any = cluster.address
    with pytest.raises(SettingsError, match=r"client must be a distributed\.Client, got 'tcp://"):
        pyspy_on_scheduler("profile.json", client=wrong).__enter__()


def test_path_chooses_the_format_and_is_meant_where_the_call_was(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("trace.html", "trace.json.gz"):
        with viztrace_scheduler(tmp_path / name, tracer_entries=20_000):
            client.run_on_scheduler(burn_scheduler_cpu, 0.2)
    monkeypatch.chdir(tmp_path)
    with pyspy_on_scheduler("pyspy.svg"):
        client.run_on_scheduler(burn_scheduler_cpu, 0.2)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
    picture = (tmp_path / "pyspy.svg").read_text()
    assert "<svg" in picture
    assert "burn_scheduler_cpu" in picture
    page = (tmp_path / "trace.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "burn_scheduler_cpu" in page
    assert b"burn_scheduler_cpu" in gzip.decompress((tmp_path / "trace.json.gz").read_bytes())


def test_warnings_of_a_recording_are_logged(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with viztrace_scheduler(tmp_path / "trace.json", tracer_entries=100):
        client.run_on_scheduler(burn_scheduler_cpu, 0.2)
    assert any("viztracer's buffer overflowed" in text for text in caplog.messages)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pyspy_on_scheduler("x", rate=0), "rate must be a positive .* pyspy_on_scheduler"),
        (lambda: pyspy_on_scheduler("x", timeout=-1), "timeout must be a positive"),
        (
            lambda: pyspy_on_scheduler("x", nativ=True),
            "option 'nativ' .did you mean 'native'",
        ),
        (lambda: viztrace_scheduler("x", format="svg"), "format must be one of json"),
    ],
)
def test_argument_that_cannot_be_is_told_by_the_call(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        call()


def test_cancelled_while_it_begins_leaves_nothing(cluster: LocalProcesses, tmp_path: Path) -> None:
    async def main() -> None:
        async with Client(cluster.address, asynchronous=True):
            entering = asyncio.create_task(pyspy_on_scheduler(tmp_path / "x.json").__aenter__())
            while not psutil.Process(cluster.pid).children():
                await asyncio.sleep(0.001)
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering

    asyncio.run(main())  # the fixture checks that nothing is left


def test_cancelled_in_the_body_keeps_the_profile(cluster: LocalProcesses, tmp_path: Path) -> None:
    async def profiled(begun: asyncio.Event) -> None:
        async with pyspy_on_scheduler(tmp_path / "profile.json"):
            begun.set()
            await asyncio.Event().wait()

    async def main() -> None:
        async with Client(cluster.address, asynchronous=True):
            begun = asyncio.Event()
            task = asyncio.create_task(profiled(begun))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert (tmp_path / "profile.json").exists()
