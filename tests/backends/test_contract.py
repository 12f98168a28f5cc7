"""What every backend must do, on a real scheduler. A new one joins by its line in BACKENDS."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from support import settle, wait_for

from pytest_schedprof.analysis.shares import shares_of
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster
from pytest_schedprof.errors import RecordingError, SchedprofError
from pytest_schedprof.model.profile import Profile, SampleProfile
from pytest_schedprof.recorder import Recorder

BACKENDS = ["cprofile", "pyspy", "viztracer"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BackendRegistry().make(request.param, rate_hz=200, options={})


def burn_known_cpu(dask_scheduler: Any = None) -> None:
    """Nine tenths of the work here, a tenth in its lesser twin; another twin only waits."""
    import time

    def burn(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def greater_twin() -> None:
        burn(0.9)

    def lesser_twin() -> None:
        burn(0.1)

    def idle_twin() -> None:
        time.sleep(0.5)

    greater_twin()
    lesser_twin()
    idle_twin()


def remains(pid: int) -> dict[str, Any]:
    """What a recording could leave in the scheduler's process."""
    process = psutil.Process(pid)
    return {
        "children": {child.pid for child in process.children(recursive=True)},
        "threads": {thread.id for thread in process.threads()},
        "descriptors": descriptors(pid),
        "is stopped": process.status() == psutil.STATUS_STOPPED,
    }


def descriptors(pid: int) -> list[str]:
    """Open files and pipes; not sockets, which distributed pools, nor its monitor's looks."""
    paths = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            paths.append(os.readlink(f"/proc/{pid}/fd/{number}"))
        except FileNotFoundError:
            pass  # closed since it was listed
    return sorted(path for path in paths if not path.startswith(("socket:", "/proc/")))


def attributes(dask_scheduler: Any = None) -> set[str]:
    return {name for name in vars(dask_scheduler) if "schedprof" in name}


@pytest.fixture(scope="module", autouse=True)
def own_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """So that what is left there can only be from here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        patch.setattr(tempfile, "tempdir", None)
        yield


def directories() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("schedprof-")}


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: LocalCluster, control: Control) -> Iterator[None]:
    """Each test ends as it began: processes, threads, descriptors, attributes, files."""
    control.call(burn_known_cpu)  # what a first call opens is no leak
    before, files = remains(cluster.pid), directories()
    yield
    if cluster.death() is None:
        settle(lambda: not control.call(attributes), timeout_s=3)
        settle(lambda: remains(cluster.pid) == before, timeout_s=3)
        assert remains(cluster.pid) == before
        assert control.call(attributes) == set()
    assert directories() <= files


def busy_part(recorder: Recorder, backend: Backend, name: str) -> float:
    """Which part of what the backend saw the scheduler do the function holds, callees included."""
    profiles = [
        backend.read(segment.raw[backend.name].content, recorder.control.name_places)
        for each in recorder.rounds
        for segment in each
    ]
    return sum(_part(profile, backend, name) for profile in profiles) / len(profiles)


def _part(profile: Profile, backend: Backend, name: str) -> float:
    # Before Python 3.11 the names of functions that came by value are not qualified.
    ends = (f".{name}", f":{name}")
    if isinstance(profile, SampleProfile):
        shares = shares_of([[profile]], drift=backend.drift)
        (function,) = [each for each in shares.total.inclusive if each.endswith(ends)] or [""]
        return shares.of_function(function).value
    own = "self_seconds"
    busy = sum(costs[own] for name, costs in profile.functions.items() if not is_waiting(name))
    mine = [costs["seconds"] for name, costs in profile.functions.items() if name.endswith(ends)]
    return 0.0 if is_waiting(name) else sum(mine) / busy


def is_waiting(function: str) -> bool:
    """Time that passes by the wall clock alone."""
    return any(word in function for word in ("poll", "sleep", "select", "idle_twin"))


def test_sees_the_function_that_burns_and_not_its_idle_twin(
    control: Control, backend: Backend
) -> None:
    recorder = Recorder(control, [backend], 10.0)
    with recorder.round():
        control.call(burn_known_cpu)
    assert recorder.troubles == []
    burned = busy_part(recorder, backend, "greater_twin")
    lesser = busy_part(recorder, backend, "lesser_twin")
    assert burned + lesser > 0.9
    assert 0.8 < burned / (burned + lesser) < 0.97
    assert busy_part(recorder, backend, "idle_twin") < 0.1  # a third of the time, were it counted


def test_segment_tells_the_cpu_time_of_the_scheduler(control: Control, backend: Backend) -> None:
    recorder = Recorder(control, [backend], 10.0)
    with recorder.round():
        control.call(burn_known_cpu)
    (segment,) = recorder.rounds[0]
    assert 1.0 < segment.facts.cpu_seconds < 1.5
    assert segment.facts.seconds > segment.facts.cpu_seconds
    assert segment.facts.tasks == 0


def test_twice_in_a_row(control: Control, backend: Backend) -> None:
    recorder = Recorder(control, [backend], 10.0)
    for _ in range(2):
        with recorder.round():
            control.call(burn_known_cpu)
    assert recorder.troubles == []
    assert [len(each) for each in recorder.rounds] == [1, 1]


def test_two_at_once_are_refused_and_the_first_goes_on(control: Control, backend: Backend) -> None:
    recorder, second = (Recorder(control, [backend], 10.0) for _ in range(2))
    with recorder.round():
        with second.round():
            control.call(burn_known_cpu)
        assert len(second.troubles) == 1
        assert "is under way on the scheduler" in second.troubles[0]
    assert recorder.troubles == []
    assert busy_part(recorder, backend, "greater_twin") > 0.7


def test_stops_when_the_body_raises(control: Control, backend: Backend) -> None:
    recorder = Recorder(control, [backend], 10.0)
    with pytest.raises(KeyError), recorder.round():
        raise KeyError("the body's own")
    assert recorder.troubles == []
    assert len(recorder.rounds[0]) == 1


def test_narrowed_round_keeps_the_narrow_part_alone(control: Control, backend: Backend) -> None:
    recorder = Recorder(control, [backend], 10.0)
    with recorder.round():
        control.call(burn_known_cpu)
        with recorder.measure():
            pass
    assert busy_part(recorder, backend, "greater_twin") == 0


def test_ends_when_the_client_that_started_it_is_gone(
    cluster: LocalCluster, backend: Backend
) -> None:
    with Control(cluster.address) as gone:
        backend.start(gone, timeout_s=10)


def test_scheduler_killed_while_it_is_observed(backend: Backend) -> None:
    cluster = LocalCluster(0, timeout_s=30)
    try:
        with Control(cluster.address, timeout_s=1) as control:
            recorder = Recorder(control, [backend], 10.0, death=cluster.death)
            with recorder.round():
                children = psutil.Process(cluster.pid).children(recursive=True)
                os.kill(cluster.pid, signal.SIGKILL)
                wait_for(lambda: cluster.death() is not None, "the scheduler to die")
        assert len(recorder.troubles) == 1
        assert "was killed by signal 9" in recorder.troubles[0]
        wait_for(lambda: not any(child.is_running() for child in children), "its children to end")
    finally:
        cluster.close()


def test_garbage_is_no_profile(backend: Backend) -> None:
    namer: Callable[[list[tuple[str, str, int]]], list[str]] = lambda places: []  # noqa: E731
    for content in (b"", b"{}", b"\x00\xff", b'{"shared": {"frames": []}, "profiles": [7]}'):
        with pytest.raises(SchedprofError, match="schedprof: not a"):
            backend.read(content, namer)


def test_stop_after_the_scheduler_forgot_it_is_one_clear_error(
    control: Control, backend: Backend
) -> None:
    recording = backend.start(control, timeout_s=10)
    recording.abandon(timeout_s=10)
    with pytest.raises(RecordingError, match="knows nothing of this"):
        recording.stop(timeout_s=10)
