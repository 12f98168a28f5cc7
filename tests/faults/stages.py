"""A pytest plugin for sessions that a test of faults starts.

It stops the session at named stages until the harness has done its harm, and writes down the
verdict of each test and the descriptors that are left. `harness.py` starts sessions with it.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import pkgutil
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

FILE, ADDRESS, STAGE = "SCHEDPROF_FAULTS_FILE", "SCHEDPROF_FAULTS_ADDRESS", "SCHEDPROF_FAULTS_STAGE"
"""Variables of the environment: where to write, where the harness listens, and where to stop."""

PLACES = {
    "cluster starting": ("pytest_schedprof.clusters.child:Child.answer", "before"),
    "scheduler started": ("pytest_schedprof.clusters.session:ClusterSession.cluster", "after"),
    "window closing": ("pytest_schedprof.measuring.recorder:Recorder._stop", "before"),
    "fetching": ("pytest_schedprof.backends.remote:RemoteRecording._fetch", "before"),
    "assessing": ("pytest_schedprof.measuring.profiling:ProfiledTest._judge", "before"),
}
"""Stages of the plugin: the function that each is at, and whether it is before or after it.

Any other name is a stage of the test, which calls `reached(name)`.
"""


class Stop(NamedTuple):
    """Where the harness waits: a stage for the nth time, in one test or in all of the session."""

    stage: str
    nth: int
    test: str


def stops() -> list[Stop]:
    """Read them from texts such as `fetching`, `fetching#2` or `fetching@test_it`."""
    texts = filter(None, os.environ.get(STAGE, "").split(","))
    parts = [(text.partition("@")[0].partition("#"), text.partition("@")[2]) for text in texts]
    return [Stop(stage, int(nth or 1), test) for (stage, _, nth), test in parts]


TIMES: Counter[tuple[str, str]] = Counter()
"""How often each stage was reached in each test, and in the session as the test without a name."""


def reached(stage: str) -> None:
    """Wait until the harness has done its harm, if this is a stage that it waits for."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[2].partition(" ")[0]
    TIMES.update({(stage, name) for name in ("", test)})
    here = [stop for stop in stops() if stop.test in ("", test)]
    if any(stop == (stage, TIMES[stage, stop.test], stop.test) for stop in here):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect("\0" + os.environ[ADDRESS])
            line.recv(1)  # returns when the harness hangs up


def pytest_configure(config: pytest.Config) -> None:
    for stage in PLACES.keys() & {stop.stage for stop in stops()}:
        stop_at(stage)
    ctypes.CFUNCTYPE(None)(print)  # libffi 3.5 keeps a descriptor from the first callback on
    config.stash[BEFORE] = descriptors()


def stop_at(stage: str) -> None:
    """Wrap the function that the stage is at, so that its calls tell that it is reached."""
    place, when = PLACES[stage]
    owner_name, _, name = place.replace(":", ".").rpartition(".")
    owner = pkgutil.resolve_name(owner_name)
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if when == "before":
            reached(stage)
        result = function(*arguments, **keywords)
        if when == "after":
            reached(stage)
        return result

    setattr(owner, name, call)


BEFORE: pytest.StashKey[dict[int, str]] = pytest.StashKey()
"""Descriptors that were open when the session began."""


def descriptors() -> dict[int, str]:
    """Return what each open descriptor of this process is of."""
    targets = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            targets[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # that of the listing itself
    return targets


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcome = "error" if report.failed and report.when != "call" else report.outcome
        note(test=report.nodeid.rpartition("::")[2], outcome=outcome)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    gc.collect()  # an event loop that nobody holds any longer is closed then
    before = config.stash[BEFORE]
    left = [
        descriptor
        for number, descriptor in descriptors().items()
        if before.get(number) != descriptor
    ]
    note(descriptors=left)


def note(**facts: Any) -> None:
    """Add a line to the file that the harness reads."""
    with open(os.environ[FILE], "a") as file:
        file.write(json.dumps(facts) + "\n")
