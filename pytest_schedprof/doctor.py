"""Examines a scheduler: what can be known of it, and what each backend really does there."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pytest_schedprof.agent import checkup as agent
from pytest_schedprof.agent import facts, privileges
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster
from pytest_schedprof.clusters.reachability import open_line
from pytest_schedprof.diagnosis.privileges import read_privileges
from pytest_schedprof.errors import BackendUnavailableError, SchedulerLostError, as_own
from pytest_schedprof.model.checkup import BackendCheck, Checkup, ClockOffset, Machine
from pytest_schedprof.model.versions import differences

RATE_HZ = 100.0
ROUND_TRIPS = 5
START_S = 30.0
"""What starting a scheduler may take on a busy machine, however little one that runs may."""

SPARING: Mapping[str, Mapping[str, object]] = {"viztracer": {"tracer_entries": 10_000}}
"""A scheduler keeps viztracer's buffer for good, and 100 MB is much to leave behind."""

Options = Mapping[str, Mapping[str, object]]
"""Of each backend, by its name."""


def examine(
    address: str | None, chosen: Collection[str], options: Options, *, timeout_s: float
) -> Checkup:
    """Of the scheduler there, or without an address of one that is started for it.

    Raises:
        SettingsError: for an address, a backend or an option that cannot be.
        SchedulerLostError: if no scheduler answers, or it dies of it.
    """
    registry = BackendRegistry()
    registry.check([*chosen, *options])
    backends = [_made(registry, name, options) for name in registry.names]
    with _line_to(address, timeout_s) as control:
        return _examined(control, backends, chosen, is_own=address is None, timeout_s=timeout_s)


def _made(registry: BackendRegistry, name: str, options: Options) -> Backend:
    given = {**SPARING.get(name, {}), **options.get(name, {})}
    return registry.make(name, rate_hz=RATE_HZ, options=given)


@contextmanager
def _line_to(address: str | None, timeout_s: float) -> Iterator[Control]:
    if address is not None:
        with open_line(address, None, timeout_s) as control:
            yield control
        return
    cluster = LocalCluster(0, timeout_s=max(timeout_s, START_S))
    try:
        with Control(cluster.address, timeout_s=timeout_s) as control:
            yield control
    finally:
        cluster.close()


def _examined(
    control: Control,
    backends: Collection[Backend],
    chosen: Collection[str],
    *,
    is_own: bool,
    timeout_s: float,
) -> Checkup:
    here, there = _here(), Machine(**control.call(agent.examine))
    return Checkup(
        address=control.address,
        is_own=is_own,
        here=here,
        scheduler=there,
        workers=len(control.call(facts.describe)["workers"]),
        loop_in_main_thread=control.call(agent.is_in_main_thread),
        privileges=read_privileges(control.call(privileges.privileges)),
        clock=_clock(control),
        differences=differences(here.versions, there.versions, python=(here.python, there.python)),
        backends=tuple(
            _checked(each, control, is_chosen=each.name in chosen, timeout_s=timeout_s)
            for each in backends
        ),
    )


def _here() -> Machine:
    """Artifacts are kept where pytest is started."""
    directory = os.getcwd()
    found = Machine(**agent.examine())
    return replace(found, directory=directory, free_bytes=agent.free_bytes(directory))


def _clock(control: Control) -> ClockOffset:
    """By the shortest of a few round trips; the answer was given somewhere in its middle."""
    return min((_round_trip(control) for _ in range(ROUND_TRIPS)), key=lambda it: it.uncertainty)


def _round_trip(control: Control) -> ClockOffset:
    asked_at, begun = time.time(), time.perf_counter()
    told: float = control.call(agent.now)
    half = (time.perf_counter() - begun) / 2
    return ClockOffset(told - (asked_at + half), half)


def _checked(
    backend: Backend, control: Control, *, is_chosen: bool, timeout_s: float
) -> BackendCheck:
    """Record for a moment and read what came of it."""
    begun = time.perf_counter()
    reason, remedies = "", tuple[str, ...]()
    try:
        recording = backend.start(control, timeout_s=timeout_s)
        control.call(facts.describe)  # something to be seen
        backend.read(recording.stop(timeout_s=timeout_s).content, control.name_places)
    except BackendUnavailableError as error:
        reason, remedies = error.reason, error.remedies
    except SchedulerLostError:
        raise
    except Exception as error:  # the next backend may work all the same
        reason = str(as_own(error))
    seconds = time.perf_counter() - begun
    reason = reason.removeprefix("schedprof: ")
    return BackendCheck(backend.name, is_chosen, not reason, seconds, reason, remedies)
