"""Tests of profile_scheduler: backends, limits, the record, and combinations that are refused;
and of all that profiles a scheduler in the caller's own process, like that of `Client()`.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from support import BURNED, burn_scheduler_cpu, python, shares_in

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


def burn(client: Client, seconds: float) -> None:
    client.run_on_scheduler(burn_scheduler_cpu, seconds)


@pytest.mark.slow
def test_result_and_artifacts(client: Client, tmp_path: Path) -> None:
    """Two backends that do not disturb each other record together, and nobody is warned."""
    place = tmp_path / "made" / "place"
    with profile_scheduler(["pyspy", "cputime"], place, name="burning") as profile:
        burn(client, 2.0)  # a busy machine takes few samples a second
    result = profile.result
    assert (result.test_id, result.outcome, result.troubles) == ("burning", "passed", ())
    assert [measured.backend for measured in result.backends] == ["pyspy", "cputime"]
    for measured in result.backends:
        assert measured.shares is not None
        hottest = max(measured.shares.functions, key=lambda share: share.self_share.value)
        assert hottest.function.endswith(":burn_scheduler_cpu")
        assert measured.window.cpu_seconds > 0.36
        assert warnings_of(measured) == []
    assert read_record(place / "result.json", Result) == result
    kept = {path.name for path in place.iterdir()}
    assert kept == {
        "result.json",
        *(name for backend in result.backends for name in backend.artifacts),
    }


def test_without_a_directory_nothing_is_stored_and_the_result_is_there_after_the_body(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with profile_scheduler("counts", limits="calls(distributed.scheduler:*) <= 1000") as profile:
        burn(client, 0.1)
        with pytest.raises(RecordingError, match="only after the `with` block"):
            profile.result  # noqa: B018
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

    functions = shares_in(asyncio.run(main())).functions
    burned = [one.share.value for one in functions if one.function.endswith(":burn_scheduler_cpu")]
    assert sum(burned) == 0


def test_limit_that_is_broken(client: Client, tmp_path: Path) -> None:
    profiling = profile_scheduler("cputime", tmp_path, limits=[FALSE])
    line = r"schedprof: limit broken: share.* holds"
    with pytest.raises(LimitBrokenError, match=line) as caught, profiling as profile:
        burn(client, 0.7)
    kept = tmp_path / "scheduler.cputime.speedscope.json"
    assert min(str(kept), os.path.relpath(kept), key=len) in str(caught.value)
    assert profile.result.verdict is Verdict.FAIL
    assert (tmp_path / "result.json").exists()


def test_limit_that_is_inconclusive_raises_only_under_strict(client: Client) -> None:
    limit = f"share({BURNED}) <= 97%"  # of 20 samples, as it is CPU time that is sampled
    with profile_scheduler("cputime", limits=limit) as profile:
        burn(client, 0.2)
    assert profile.result.verdict is Verdict.INCONCLUSIVE
    profiling = profile_scheduler("cputime", limits=limit, strict=True)
    with pytest.raises(LimitBrokenError, match="limit inconclusive"), profiling:
        burn(client, 0.2)


@pytest.mark.slow
def test_body_that_raises_is_not_hidden_by_a_broken_limit(client: Client) -> None:
    def body() -> None:
        burn(client, 0.7)
        raise KeyError("the body's own")

    profiling = profile_scheduler("cputime", limits=[FALSE])
    with pytest.raises(KeyError) as caught, profiling as profile:
        body()
    assert profile.result.outcome == "failed"
    assert profile.result.verdict is Verdict.FAIL
    assert not profile.result.is_usable
    assert "limit broken" in "".join(caught.value.__notes__)


def test_limit_that_names_nothing(client: Client) -> None:
    profiling = profile_scheduler(limits="share(distributed.scheduler:no_such) <= 1%")
    message = "names nothing in the scheduler's code"
    with pytest.raises(LimitError, match=message), profiling as profile:
        burn(client, 0.1)
    assert profile.result.troubles


def warnings_of(backend: BackendResult) -> list[str]:
    """Warnings of a backend, without those that a slow machine adds."""
    return [text for text in backend.warnings if "behind" not in text]


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
        ({"backends": "pyspi"}, BackendUnknownError, "'pyspi' is unknown .did you mean 'pyspy'"),
        ({"options": {"viztracer": {"format": "html"}}}, SettingsError, "not one of the backends"),
        ({"options": {"pyspy": True}}, SettingsError, "must be a dictionary .* profile_scheduler"),
    ],
)
def test_what_cannot_be_is_told_before_the_body(
    client: Client, arguments: dict[str, Any], kind: type[SchedprofError], message: str
) -> None:
    with pytest.raises(kind, match=message), profile_scheduler(**arguments):
        pytest.fail("the body ran")


def test_artifacts_that_cannot_be_written_are_told_and_the_result_is_there(
    client: Client, tmp_path: Path
) -> None:
    profiling = profile_scheduler("counts", tmp_path / "place")
    with pytest.raises(ArtifactError) as caught, profiling as profile:
        os.rename(tmp_path / "place", tmp_path / "elsewhere")
    assert "scheduler.counts.json" in str(caught.value)
    assert "result.json" in str(caught.value)
    assert profile.result.backends[0].costs is not None


HEADER = """
import asyncio, os
import psutil
from distributed import Client, LocalCluster, wait
from pytest_schedprof import profile_scheduler, pyspy_on_scheduler, viztrace_scheduler
from pytest_schedprof.errors import SchedulerLostError

QUIET = {"n_workers": 1, "dashboard_address": ":0", "processes": False}

TRACING = viztrace_scheduler(
    "viztracer.json", trace_sparse="distributed.Scheduler.update_graph"
)

def inc(x):
    return x + 1

def profilers():
    children = psutil.Process().children(recursive=True)
    return [child.name() for child in children if "multiprocessing" not in arguments(child)]

def arguments(process):
    try:
        return str(process.cmdline())
    except psutil.ZombieProcess:  # it has ended, and is looked after in a moment
        return ""

"""

SCRIPTS = {
    # A process that is both client and scheduler has only one of each class of the agent.
    "threads": """
client = Client(**QUIET)
with pyspy_on_scheduler("pyspy.json"), TRACING:
    wait(client.map(inc, range(60)))
assert profilers() == []
for backend in ("counts", "counts", "cprofile", "cprofile", "memray", "memray"):
    with profile_scheduler(backend) as profile:
        wait(client.map(inc, range(20), pure=False))
    assert profile.result.troubles == ()
    assert profile.result.backends[0].window.tasks == 20
try:
    with pyspy_on_scheduler("closed.json"):
        assert profilers()
        client.close()
except SchedulerLostError as error:
    assert "died or was closed" in str(error), error
    assert profilers() == []
""",
    "nannies": """
if __name__ == "__main__":
    with Client(**{**QUIET, "processes": True}) as client:
        with pyspy_on_scheduler("pyspy.json"), TRACING:
            wait(client.map(inc, range(60)))
        with profile_scheduler("pyspy", limits="share(@transitions) <= 99%") as profile:
            wait(client.map(inc, range(2000), pure=False))
        assert profile.result.backends[0].window.tasks == 2000
        assert profile.result.backends[0].shares.busy_samples > 0
        assert profilers() == []
""",
    "asynchronous": """
async def main():
    client = await Client(**QUIET, asynchronous=True)
    async with pyspy_on_scheduler("pyspy.json"), TRACING:
        await client.gather(client.map(inc, range(60)))
    assert profilers() == []
    try:
        async with pyspy_on_scheduler("closed.json"):
            assert profilers()
            await client.close()
    except SchedulerLostError as error:
        assert "died or was closed" in str(error), error
    while profilers():  # its loop goes on
        await asyncio.sleep(0.05)

asyncio.run(asyncio.wait_for(main(), 400))
""",
}
"""Scripts that profile, and of which two close the scheduler in a body that is profiled."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCRIPTS)
def test_users_see_the_scheduler_in_their_process(tmp_path: Path, kind: str) -> None:
    (tmp_path / "script.py").write_text(HEADER + SCRIPTS[kind])
    python("script.py", cwd=tmp_path)
    assert json.loads((tmp_path / "pyspy.json").read_text())["profiles"]
    events = json.loads((tmp_path / "viztracer.json").read_text())["traceEvents"]
    assert any("Scheduler.update_graph" in event["name"] for event in events)
    assert not (tmp_path / "closed.json").exists()
