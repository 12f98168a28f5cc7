"""Finds out what a scheduler carries: measures it, and another one in turns if that is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from statistics import fmean

from distributed import Client

from pytest_schedprof.agent import facts
from pytest_schedprof.analysis.carrying import carried, changes
from pytest_schedprof.clusters.options import check_cluster_options, check_known_to_dask
from pytest_schedprof.environments.interpreter import interpreter_for
from pytest_schedprof.environments.making import default_cache
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.workload_files import read_files
from pytest_schedprof.measuring.ladder import measure
from pytest_schedprof.measuring.wanted import SIMULATED, VIRTUAL, SideSpec, Tell, Wanted, Work
from pytest_schedprof.model.capacity import Asked, Capacity
from pytest_schedprof.settings.other_settings import read_other_settings
from pytest_schedprof.workloads import WORKLOADS, replay

MAKING_S = 900.0
"""Time limit for installing the other side's packages."""

DEFAULTS: dict[str, dict[str, str]] = {SIMULATED: {}, VIRTUAL: {"duration": "exponential(100ms)"}}
"""Options of each kind of cluster. In real time tasks are as short as they can be, so that workers
wait for the scheduler. In virtual time the scheduler takes no time: workers never wait."""

TASK_S, REPLAY_S = 5e-3, 5.0
"""Least seconds of a replay for each recorded task, and in all: graphs arrive slowly enough for
tasks to end before their results are released."""

ENDED = 0.9
"""Part of the recorded tasks that must end in a replay."""


def find_capacity(asked: Asked, tell: Tell) -> Capacity:
    """Measure, and return what follows.

    Raises:
        SettingsError: for a shape, a file, an option or another side that cannot be used.
        SchedprofError: if a cluster cannot be started or is lost, or a workload cannot run.
    """
    begun = time.monotonic()
    wanted, durations = _wanted(asked)
    sides = measure(replace(wanted, sides=_sides(asked)), tell)
    return Capacity(
        machine=str(facts.environment()["machine"]),
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        cluster=asked.cluster,
        workload=asked.file or asked.shape,
        tasks_a_thread=asked.tasks if wanted.is_sized else 0,
        threads_a_worker=asked.threads,
        bounds=asked.bounds,
        sides=tuple(carried(each, asked.sizes, durations, asked.bounds) for each in sides),
        changes=changes(*sides) if len(sides) > 1 else (),
        seconds=time.monotonic() - begun,
    )


def _wanted(asked: Asked) -> tuple[Wanted, tuple[float, ...]]:
    """Return what to measure, and the durations of tasks that are of interest."""
    check_cluster_options(asked.cluster, asked.options)
    check_known_to_dask(asked.options)
    if asked.file:
        return _recorded(asked)
    if asked.shape not in WORKLOADS:
        raise SettingsError(
            f"schedprof: there is no shape {asked.shape!r}; known: {', '.join(WORKLOADS)}"
        )
    return _plan(asked, partial(_shaped, asked.shape)), asked.durations


def _plan(asked: Asked, work: Callable[[int], Work]) -> Wanted:
    return Wanted(
        work=work,
        workers=asked.workers,
        threads=asked.threads,
        tasks=asked.tasks,
        repeats=asked.repeats,
        sizes=asked.sizes,
        options={**DEFAULTS[asked.cluster], **asked.options},
        kind=asked.cluster,
        bounds=asked.bounds if asked.by_load and asked.cluster == SIMULATED else None,
    )


def _shaped(shape: str, tasks: int) -> Work:
    def work(client: Client) -> None:
        WORKLOADS[shape](client, tasks)

    return work


def _recorded(asked: Asked) -> tuple[Wanted, tuple[float, ...]]:
    """Replay faster than in reality; tasks are shortened alike, and the scheduler does not know."""
    recorded = read_files(asked.file)
    tasks = sum(len(each.tasks) for each in recorded.graphs)
    if not tasks:
        raise SettingsError(
            f"schedprof: the workload {asked.file!r} has no tasks; record one while clients work"
        )
    speed = max(1.0, recorded.seconds / max(REPLAY_S, tasks * TASK_S))
    if asked.cluster == VIRTUAL:  # where time costs nothing
        speed = 1.0

    def work(client: Client) -> None:
        replay(client, asked.file, speed=speed)

    options = {"workload": asked.file, "time_scale": f"{speed:g}", **asked.options}
    mean = fmean([each.seconds for each in recorded.results.values()] or [1.0])
    ended = int(ENDED * len(recorded.results))
    wanted = _plan(asked, lambda tasks: work)
    wanted = replace(wanted, options=options, is_sized=False, least_tasks=ended, bounds=None)
    return wanted, tuple(sorted({*asked.durations, *([round(mean, 4)] if mean >= 1e-4 else [])}))


def _sides(asked: Asked) -> tuple[SideSpec, ...]:
    """Return the schedulers to measure."""
    against = asked.against
    if not against:
        return (SideSpec(),)
    if settings := read_other_settings(against):
        options = dict(settings.options)
        if settings.workers or settings.threads:
            raise SettingsError(
                f"schedprof: against {against!r} must have as many workers and threads as this "
                "side; give another release, checkout, interpreter, or options of the cluster"
            )
        check_cluster_options(asked.cluster, options)
        check_known_to_dask(options)
        return (SideSpec(), SideSpec(against, options=options))
    there = interpreter_for(against, default_cache(), MAKING_S)
    return (SideSpec(), SideSpec(against, str(there.path)))
