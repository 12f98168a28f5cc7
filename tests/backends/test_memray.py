"""Tests specific to memray: the meaning of its figures, other trackers, and what it needs."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import distributed.scheduler
import pytest
from support import Project, recorded

from pytest_schedprof.agent import memory as agent
from pytest_schedprof.agent.recordings import OwnProcess
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    FormatError,
    RecordingError,
)
from pytest_schedprof.model.profile import CostProfile

MB = 10**6


def memray(**options: object) -> Backend:
    return BackendRegistry().make("memray", rate_hz=100, options=options)


def held_and_kept(dask_scheduler: Any = None) -> None:
    """Allocate 90 MB that are freed and 10 MB that are kept."""

    def passing_twin() -> bytearray:
        return bytearray(90 * 10**6)

    def keeping_twin() -> bytearray:
        return bytearray(10 * 10**6)

    def idle_twin() -> bytearray:
        return bytearray(10)

    held = passing_twin(), idle_twin()
    dask_scheduler.kept_by_the_test = keeping_twin()
    del held


def give_back(dask_scheduler: Any = None) -> None:
    del dask_scheduler.kept_by_the_test


def measured(control: Control, work: Any, **options: object) -> CostProfile:
    backend = memray(**options)
    profile = backend.read(recorded(control, backend, work).content, control.name_places)
    assert isinstance(profile, CostProfile)
    return profile


def part(profile: CostProfile, metric: str, name: str) -> float:
    """Sum of a metric over the functions with this name, whether qualified or not."""
    ends = (f".{name}", f":{name}")
    return sum(
        costs[metric] for function, costs in profile.functions.items() if function.endswith(ends)
    )


MODES = [{}, {"trace_python_allocators": False}, {"native": True}]


@pytest.mark.parametrize("options", MODES, ids=str)
def test_tells_what_was_held_and_what_was_kept_and_by_whom(
    control: Control, options: dict[str, object]
) -> None:
    profile = measured(control, held_and_kept, **options)
    control.call(give_back)
    assert 0.9 * 90 * MB < part(profile, "peak", "passing_twin") < 1.1 * 90 * MB
    assert part(profile, "leaked", "passing_twin") == 0
    assert 0.9 * 10 * MB < part(profile, "leaked", "keeping_twin") < 1.1 * 10 * MB
    assert part(profile, "peak", "idle_twin") < 1000
    assert 100 * MB < profile.whole["peak"] < 110 * MB
    assert 10 * MB < profile.whole["leaked"] < 15 * MB
    for metric, amount in profile.whole.items():
        together = sum(costs[metric] for costs in profile.functions.values())
        assert options or 0.99 * amount < together <= amount


def test_what_was_there_before_the_window_counts_for_nothing(control: Control) -> None:
    control.call(held_and_kept)
    profile = measured(control, give_back)
    assert profile.whole["peak"] < 5 * MB
    assert profile.whole["leaked"] < 5 * MB


def test_garbage_that_waits_to_be_collected_is_no_leak(control: Control) -> None:
    def make_garbage(dask_scheduler: Any = None) -> None:
        cycle: list[object] = [bytearray(10 * 10**6)]
        cycle.append(cycle)

    profile = measured(control, make_garbage)
    assert profile.whole["peak"] > 10 * MB
    assert profile.whole["leaked"] < 5 * MB


def idle(dask_scheduler: Any = None) -> None:
    pass


def test_names_are_qualified_although_memray_gives_the_last_part_alone(control: Control) -> None:
    code = distributed.scheduler.SchedulerState._transition.__code__
    place = (code.co_filename, "_transition", code.co_firstlineno + 5)
    assert control.name_places([place]) == ["distributed.scheduler:SchedulerState._transition"]


def test_the_flame_graph_shows_the_functions(control: Control) -> None:
    backend = memray(native=True)
    extras = backend.extras(recorded(control, backend, held_and_kept).content)
    control.call(give_back)
    assert set(extras) == {"memray.html"}
    assert b"<html" in extras["memray.html"]
    assert b"passing_twin" in extras["memray.html"]


def test_no_file_is_there_while_it_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with (
        closing(LocalProcesses(0, timeout_s=200)) as cluster,
        Control(cluster.address) as control,
    ):
        before = everything_in(tmp_path)
        recording = memray().start(control, timeout_s=200)
        assert everything_in(tmp_path) == before
        assert recording.stop(timeout_s=200).content


def everything_in(directory: Path) -> set[str]:
    return {os.path.join(root, name) for root, _, names in os.walk(directory) for name in names}


def test_a_tracker_that_cannot_be_made_leaves_no_file() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(TypeError):  # as from an older release of memray
        asyncio.run(agent.start({"unheard_of": True}, "client", OwnProcess()))
    assert os.listdir("/proc/self/fd") == before


def track_by_hand(path: str, dask_scheduler: Any = None) -> None:
    import memray

    dask_scheduler.tracked_by_hand = memray.Tracker(path)
    dask_scheduler.tracked_by_hand.__enter__()


def track_no_longer(dask_scheduler: Any = None) -> None:
    dask_scheduler.tracked_by_hand.__exit__(None, None, None)
    del dask_scheduler.tracked_by_hand


def test_a_tracker_of_somebody_else_is_left_alone(control: Control, tmp_path: Path) -> None:
    control.call(track_by_hand, str(tmp_path / "by-hand.bin"))
    with pytest.raises(RecordingError, match="another memray recording is under way"):
        memray().start(control, timeout_s=200)
    control.call(track_no_longer)
    assert recorded(control, memray(), idle).content


def test_a_profiler_of_somebody_else_keeps_its_hook(control: Control) -> None:
    def hook(dask_scheduler: Any = None) -> None:
        import sys

        sys.setprofile(lambda *event: None)

    def unhook(dask_scheduler: Any = None) -> bool:
        import sys

        is_hooked = sys.getprofile() is not None
        sys.setprofile(None)
        return is_hooked

    control.call(hook)
    with pytest.raises(RecordingError, match="one tracker or profiler only"):
        memray().start(control, timeout_s=200)
    assert control.call(unhook)


def forbid_import(dask_scheduler: Any = None) -> None:
    """Make memray seem not installed, as Python itself marks a module that cannot be found."""
    import sys

    sys.modules["memray"] = None  # type: ignore[assignment]


def allow_import(dask_scheduler: Any = None) -> None:
    import sys

    del sys.modules["memray"]


def test_not_installed_there_says_what_to_run_there(hardened: Control) -> None:
    hardened.call(forbid_import)
    with pytest.raises(BackendNotInstalledError, match=r"there: .*python.* -m pip install memray"):
        memray().start(hardened, timeout_s=200)
    hardened.call(allow_import)
    assert recorded(hardened, memray(), idle).content


def test_not_installed_here_says_what_to_run_here(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "memray", None)
    with pytest.raises(BackendNotInstalledError, match="not installed here") as caught:
        memray().start(control, timeout_s=200)
    assert f"{sys.executable} -m pip install memray" in str(caught.value)


def test_the_proof_is_no_memory_and_a_file_cut_short_is_no_profile(control: Control) -> None:
    backend = memray()
    content = recorded(control, backend, idle).content
    assert b"memray_proof" in content
    profile = backend.read(content, control.name_places)
    assert [name for name in profile.functions if "proof" in name] == []  # type: ignore[union-attr]
    message = r"not a file that memray \S+ can read|not a whole file of memray"
    for length in (10, 100, 300, 600):
        with pytest.raises(FormatError, match=message):
            backend.read(content[:length], control.name_places)


def test_the_mode_names_what_changes_the_figures() -> None:
    assert memray().mode == ""
    assert memray(native="yes").mode == ""
    assert memray(trace_python_allocators="off").mode == "trace_python_allocators=off"
    assert memray().settings == {"native": False, "trace_python_allocators": True}


@pytest.mark.slow
def test_limits_in_a_session(project: Project) -> None:
    result = project.run_test(
        """
def keep(scheduler, size):
    def keep_for_good(dask_scheduler, size):
        dask_scheduler.kept = bytearray(size)
    scheduler.client.run_on_scheduler(keep_for_good, size=size)

@pytest.mark.schedprof("peak <= 500MB", "leaked <= 30MB", backend="memray", rounds=2)
def test_kept(schedprof_scheduler):
    keep(schedprof_scheduler, 20_000_000)

@pytest.mark.schedprof("peak <= 500MB", "leaked <= 1MB", backend="memray")
def test_broken(schedprof_scheduler):
    keep(schedprof_scheduler, 20_000_000)
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*broken: leaked <= 1MB:* is 20* MB*"])
    result.stdout.re_match_lines([r"\s+peak\s+leaked  owner\s+function"])
    result.stdout.re_match_lines([r"\s+whole scheduler: .*peak 2\d\.?\d? MB, leaked 2\d\.?\d? MB"])
    (backend,) = project.results()["test_kept"].backends
    assert set(backend.artifacts) >= {"scheduler.memray.bin", "scheduler.memray.html"}
    assert backend.costs is not None
    assert 20 * MB < backend.costs.whole["leaked"] < 30 * MB  # the higher round, not the sum
    assert backend.costs.functions[0].function.endswith("keep_for_good")
    assert 20 * MB < backend.costs.functions[0].total["leaked"] < 30 * MB
