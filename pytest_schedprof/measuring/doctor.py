"""Examines a scheduler: its facts, and whether each backend really works there."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec.structs import replace

from pytest_schedprof.agent import checkup, facts
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.child import launched
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.control.reachability import open_line
from pytest_schedprof.errors import (
    BackendUnavailableError,
    SchedprofError,
    SchedulerLostError,
    as_own,
)
from pytest_schedprof.model.backend import BackendCheck, Checkup, ClockOffset, Machine, Privileges
from pytest_schedprof.model.result import differences

RATE_HZ = 100.0
ROUND_TRIPS = 5
START_S = 30.0
"""Least time allowed for starting a scheduler, which is slow on a busy machine."""

Options = Mapping[str, Mapping[str, object]]
"""Options of each backend, by its name."""


def examine(
    address: str | None, chosen: Collection[str], options: Options, *, timeout_s: float
) -> Checkup:
    """Examine the scheduler at the address, or without one a scheduler started for this.

    Raises:
        SettingsError: for an address, a backend or an option that is not valid.
        SchedulerLostError: if no scheduler answers, or it dies while it is examined.
    """
    registry = BackendRegistry()
    registry.check([*chosen, *options])
    backends = [
        registry.make(
            name, rate_hz=RATE_HZ, options={**registry.sparing_of(name), **options.get(name, {})}
        )
        for name in registry.names
    ]
    with _line_to(address, timeout_s) as control:
        return _examined(control, backends, chosen, is_own=address is None, timeout_s=timeout_s)


@contextmanager
def _line_to(address: str | None, timeout_s: float) -> Iterator[Control]:
    if address is not None:
        with open_line(address, None, timeout_s) as control:
            yield control
        return
    cluster = LocalProcesses(0, timeout_s=max(timeout_s, START_S))
    with closing(cluster), Control(cluster.address, timeout_s=timeout_s) as control:
        yield control


def _examined(
    control: Control,
    backends: Iterable[Backend],
    chosen: Collection[str],
    *,
    is_own: bool,
    timeout_s: float,
) -> Checkup:
    directory = os.getcwd()  # artifacts are kept there
    mine, scheduler = Machine(**checkup.examine()), Machine(**control.call(checkup.examine))
    mine = replace(mine, directory=directory, free_bytes=checkup.free_bytes(directory))
    is_main_thread = control.call(checkup.is_in_main_thread)
    checks = []
    for backend in backends:
        check_it = _checked_apart if is_own and backend.launcher else _checked
        check = check_it(backend, control, is_chosen=backend.name in chosen, timeout_s=timeout_s)
        notes = dict(backend.notes(scheduler, is_main_thread=is_main_thread))
        checks.append(replace(check, notes=notes))
    return Checkup(
        address=control.address,
        is_own=is_own,
        here=mine,
        scheduler=scheduler,
        workers=len(control.call(facts.describe)["workers"]),
        loop_in_main_thread=is_main_thread,
        privileges=Privileges(**control.call(checkup.privileges)),
        # Of a few, the shortest round trip tells most about the clock.
        clock=min(
            (_round_trip(control) for _ in range(ROUND_TRIPS)), key=lambda it: it.uncertainty
        ),
        differences=differences(
            mine.versions, scheduler.versions, python=(mine.python, scheduler.python)
        ),
        backends=tuple(checks),
    )


def _round_trip(control: Control) -> ClockOffset:
    sent_at, start = time.time(), time.perf_counter()
    answer: float = control.call(checkup.now)
    half = (time.perf_counter() - start) / 2  # the answer was given somewhere in the middle
    return ClockOffset(answer - (sent_at + half), half)


def _checked_apart(
    backend: Backend, control: Control, *, is_chosen: bool, timeout_s: float
) -> BackendCheck:
    """Check a backend on a scheduler of its own, which its launcher starts if it was chosen."""
    try:
        program = launched(backend.launcher, Path())[1][0]
        if not is_chosen:
            return BackendCheck(
                backend.name,
                False,
                False,
                0.0,
                "not tried: it takes a scheduler of its own, started by "
                f"{program}, which is installed",
                (f"to try it: schedprof doctor --backend {backend.name}",),
            )
        cluster = LocalProcesses(0, timeout_s=timeout_s, launcher=backend.launcher)
        with closing(cluster), Control(cluster.address, timeout_s=timeout_s) as line:
            return _checked(backend, line, is_chosen=is_chosen, timeout_s=timeout_s)
    except BackendUnavailableError as error:
        reason = error.reason.removeprefix("schedprof: ")
        return BackendCheck(backend.name, is_chosen, False, 0.0, reason, error.remedies)
    except SchedprofError as error:  # that scheduler did not start, or was lost; others may work
        reason = str(error).removeprefix("schedprof: ")
        return BackendCheck(backend.name, is_chosen, False, 0.0, reason, ())


def _checked(
    backend: Backend, control: Control, *, is_chosen: bool, timeout_s: float
) -> BackendCheck:
    """Record for a moment and read the profile."""
    start = time.perf_counter()
    reason, remedies = "", tuple[str, ...]()
    try:
        recording = backend.start(control, timeout_s=timeout_s)
        control.call(facts.describe)  # some work to record
        backend.read(recording.stop(timeout_s=timeout_s).content, control.name_places)
    except BackendUnavailableError as error:
        reason, remedies = error.reason, error.remedies
    except SchedulerLostError:
        raise
    except Exception as error:  # other backends may still work
        reason = str(as_own(error))
    seconds = time.perf_counter() - start
    reason = reason.removeprefix("schedprof: ")
    return BackendCheck(
        backend.name, is_chosen, not reason, seconds, reason, remedies, rank=backend.rank
    )
