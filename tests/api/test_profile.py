"""Tests of profile_scheduler: backends, limits, the record, and combinations that are refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from support import BURNED

from pytest_schedprof import profile_scheduler
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.errors import (
    ArtifactError,
    BackendUnknownError,
    LimitBrokenError,
    LimitError,
    RecordingError,
    SchedprofError,
    SettingsError,
)
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.store.records import read_record

FALSE = f"share({BURNED}) <= 1%"


def burn_scheduler_cpu(seconds: float, dask_scheduler: Any = None) -> None:
    import time

    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def burn(client: Client, seconds: float = 0.4) -> None:
    client.run_on_scheduler(burn_scheduler_cpu, seconds)


@pytest.fixture
def client(cluster: LocalProcesses) -> Iterator[Client]:
    with Client(cluster.address) as client:
        yield client


def burned_share(result: Result) -> float:
    (backend,) = result.backends
    assert backend.shares is not None
    names = {of.function: of.share.value for of in backend.shares.functions}
    return sum(value for name, value in names.items() if name.endswith(":burn_scheduler_cpu"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pyspy", "cputime"])
def test_result_and_artifacts(client: Client, tmp_path: Path, backend: str) -> None:
    place = tmp_path / "made" / "place"
    with profile_scheduler(backend, place, name="burning") as profile:
        burn(client)
    result = profile.result
    assert (result.test_id, result.outcome, result.troubles) == ("burning", "passed", ())
    assert burned_share(result) > 0.8
    assert result.backends[0].window.cpu_seconds > 0.36
    assert read_record(place / "result.json", Result) == result
    kept = {path.name for path in place.iterdir()}
    assert kept == {"result.json", *result.backends[0].artifacts}


def test_without_a_directory_nothing_is_stored(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with profile_scheduler("counts", limits="calls(distributed.scheduler:*) <= 1000") as profile:
        burn(client, 0.1)
    assert profile.result.backends[0].artifacts == ()
    assert profile.result.backends[0].costs is not None
    assert list(tmp_path.iterdir()) == []


def test_async_with_and_measure(cluster: LocalProcesses, tmp_path: Path) -> None:
    async def main() -> Result:
        async with Client(cluster.address, asynchronous=True) as client:
            async with profile_scheduler("cputime", tmp_path) as profile:
                await client.run_on_scheduler(burn_scheduler_cpu, 0.5)
                async with profile.measure():
                    await asyncio.sleep(0.1)
            return profile.result

    assert burned_share(asyncio.run(main())) == 0


def test_limit_that_is_broken(client: Client, tmp_path: Path) -> None:
    profiling = profile_scheduler(directory=tmp_path, limits=[FALSE])
    line = r"schedprof: limit broken: share.* holds"
    with pytest.raises(LimitBrokenError, match=line) as caught, profiling as profile:
        burn(client)
    kept = tmp_path / "scheduler.pyspy.speedscope.json"
    assert min(str(kept), os.path.relpath(kept), key=len) in str(caught.value)
    assert profile.result.verdict is Verdict.FAIL
    assert (tmp_path / "result.json").exists()


def test_limit_that_is_inconclusive_raises_only_under_strict(client: Client) -> None:
    limit = f"share({BURNED}) <= 97%"
    with profile_scheduler(limits=limit) as profile:
        burn(client, 0.2)
    assert profile.result.verdict is Verdict.INCONCLUSIVE
    profiling = profile_scheduler(limits=limit, strict=True)
    with pytest.raises(LimitBrokenError, match="limit inconclusive"), profiling:
        burn(client, 0.2)


@pytest.mark.slow
def test_body_that_raises_is_not_hidden_by_a_broken_limit(client: Client) -> None:
    def body() -> None:
        burn(client)
        raise KeyError("the body's own")

    with pytest.raises(KeyError) as caught, profile_scheduler(limits=[FALSE]) as profile:
        body()
    assert profile.result.outcome == "failed"
    assert profile.result.verdict is Verdict.FAIL
    assert "limit broken" in "".join(getattr(caught.value, "__notes__", ["limit broken"]))


def test_limit_that_names_nothing(client: Client) -> None:
    profiling = profile_scheduler(limits="share(distributed.scheduler:no_such) <= 1%")
    message = "names nothing in the scheduler's code"
    with pytest.raises(LimitError, match=message), profiling as profile:
        burn(client, 0.1)
    assert profile.result.troubles


def warnings_of(backend: BackendResult) -> list[str]:
    """Warnings of a backend, without those that a slow machine adds."""
    return [text for text in backend.warnings if "behind" not in text]


def test_backends_together(client: Client, tmp_path: Path) -> None:
    with profile_scheduler(["pyspy", "cputime"], tmp_path) as profile:
        burn(client, 0.2)
    assert [of.backend for of in profile.result.backends] == ["pyspy", "cputime"]
    assert [warnings_of(of) for of in profile.result.backends] == [[], []]


def test_what_is_observed_beside_a_backend_that_disturbs_says_so(client: Client) -> None:
    with profile_scheduler("cprofile, pyspy", limits="calls(asyncio.*:*) <= 1000000") as profile:
        burn(client, 0.2)
    cprofile, pyspy = profile.result.backends
    assert warnings_of(pyspy) == ["recorded while cprofile slowed the scheduler down"]
    assert warnings_of(cprofile) == []


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"backends": "counts,viztracer"}, SettingsError, "counts and viztracer cannot record"),
        (
            {"backends": "counts,pyspy", "limits": "share(@comm) <= 1%"},
            LimitError,
            "cannot be judged while counts slows",
        ),
        ({"limits": "calls(a:b) <= 1"}, LimitError, "needs a backend that measures 'calls'"),
        ({"limits": "share <= 1%"}, SettingsError, "limit"),
        ({"backends": "pyspi"}, BackendUnknownError, "'pyspi' is unknown; known: .*pyspy"),
        ({"backends": []}, SettingsError, "backend must be names of backends"),
        ({"options": {"viztracer": {"format": "html"}}}, SettingsError, "not one of the backends"),
        ({"options": {"pyspy": {"nativ": True}}}, SettingsError, "no option 'nativ'"),
        ({"options": {"pyspy": True}}, SettingsError, "must be a dictionary .* profile_scheduler"),
        ({"rate": "fast"}, SettingsError, "rate must be"),
    ],
)
def test_what_cannot_be_is_told_before_the_body(
    client: Client, arguments: dict[str, Any], kind: type[SchedprofError], message: str
) -> None:
    with pytest.raises(kind, match=message), profile_scheduler(**arguments):
        pytest.fail("the body ran")


def test_directory_that_cannot_be_made_is_told_before_the_body(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot write"):
        profile_scheduler("counts", tmp_path / "file" / "below").__enter__()


def test_artifacts_that_cannot_be_written_are_told_and_the_result_is_there(
    client: Client, tmp_path: Path
) -> None:
    profiling = profile_scheduler("counts", tmp_path / "place")
    with pytest.raises(ArtifactError) as caught, profiling as profile:
        os.rename(tmp_path / "place", tmp_path / "elsewhere")
    assert "scheduler.counts.json" in str(caught.value)
    assert "result.json" in str(caught.value)
    assert profile.result.backends[0].costs is not None


def test_there_is_no_result_within_the_body(client: Client) -> None:
    refused = pytest.raises(RecordingError, match="only after the `with` block")
    with profile_scheduler("counts") as profile, refused:
        profile.result  # noqa: B018
