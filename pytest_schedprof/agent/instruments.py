"""Dask's own instruments on the scheduler: memory samplers, workers' profiles, a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from .facts import process
from .recordings import RECORDINGS, Recording, begin


def clock(dask_scheduler: Any = None) -> dict[str, Any]:
    """Return the time, and the number of measurements of the scheduler's own monitor."""
    return {"time": time.time(), "looks": dask_scheduler.monitor.count}


async def draw(beginning: dict[str, Any], code: str, dask_scheduler: Any = None) -> str:
    """Return the performance report, usable without a network; "" without Bokeh."""
    if find_spec("bokeh") is None:
        return ""
    page: str = await dask_scheduler.performance_report(
        start=beginning["time"], last_count=beginning["looks"], code=code, mode="inline"
    )
    return page


def start_samplers(
    client: str, measures: Sequence[str], interval_s: float, dask_scheduler: Any = None
) -> list[str]:
    """Start a sampler of workers' memory for each measure, and return their keys.

    They also end with the client.
    """
    begin = dask_scheduler.handlers["memory_sampler_start"]
    return [begin(client=client, measure=measure, interval=interval_s) for measure in measures]


def stop_samplers(keys: Sequence[str], dask_scheduler: Any = None) -> list[list[tuple[float, int]]]:
    """Return what each sampler saw: times and bytes."""
    end = dask_scheduler.handlers["memory_sampler_stop"]
    return [end(key=key) for key in keys]


NAME = "task-stream"


class TaskStreamRecording(Recording):
    """A hold on dask's plugin that records tasks; the last one takes what it recorded with it."""

    kind = NAME

    def __init__(self, client: str, scheduler: Any) -> None:
        from distributed.diagnostics.task_stream import TaskStreamPlugin

        super().__init__(client)
        self.scheduler = scheduler
        others = self.others()
        self.plugin: Any = others[0].plugin if others else TaskStreamPlugin(scheduler)
        self.is_at_work = False

    def others(self) -> list[TaskStreamRecording]:
        recordings = getattr(self.scheduler, RECORDINGS, {}).values()
        return [other for other in recordings if other.kind == NAME and other is not self]

    def go_on(self) -> None:
        self.is_at_work = True
        if NAME not in self.scheduler.plugins:  # the dashboard's own plugin does as well
            self.scheduler.add_plugin(self.plugin)

    def pause(self) -> None:
        """Remove the plugin, which costs time at each transition, unless others need it."""
        self.is_at_work = False
        is_ours = self.scheduler.plugins.get(NAME) is self.plugin
        if is_ours and not any(other.is_at_work for other in self.others()):
            self.scheduler.remove_plugin(name=NAME)

    async def end(self, timeout: float) -> dict[str, Any]:
        return {}

    def remove(self) -> None:
        super().remove()
        self.pause()


def hold(client: str, dask_scheduler: Any = None) -> str:
    """Return the token of a hold on the task stream, which records nothing yet."""
    recording = TaskStreamRecording(client, dask_scheduler)
    token: str = begin(dask_scheduler, recording)["token"]
    return token


def watch(token: str, dask_scheduler: Any = None) -> int:
    """Start to record tasks; return the number recorded so far."""
    getattr(dask_scheduler, RECORDINGS)[token].go_on()
    return so_far(dask_scheduler)


def unwatch(token: str, dask_scheduler: Any = None) -> None:
    """Stop recording until somebody watches again."""
    getattr(dask_scheduler, RECORDINGS)[token].pause()


def so_far(dask_scheduler: Any = None) -> int:
    """Return how many tasks were recorded."""
    return int(dask_scheduler.plugins[NAME].index)


def tell_tasks(first: int, last: int, dask_scheduler: Any = None) -> list[dict[str, Any]]:
    """Return the recorded tasks with numbers from `first` up to `last` that are still known."""
    plugin = dask_scheduler.plugins[NAME]
    forgotten = plugin.index - len(plugin.buffer)
    numbers = range(max(first, forgotten) - forgotten, last - forgotten)
    return [_plain(plugin.buffer[number]) for number in numbers]


def _plain(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": str(task["key"]),
        "worker": str(task["worker"]),
        "thread": task.get("thread"),
        "nbytes": task.get("nbytes") or 0,
        "type": str(task.get("typename") or ""),
        "has_failed": task.get("status") != "OK",
        "times": [
            {name: part[name] for name in ("action", "start", "stop")}
            for part in task["startstops"]
        ],
    }


def activities(dask_scheduler: Any = None) -> dict[str, float]:
    """Return the seconds that workers spent on each activity, as of their last heartbeats."""
    seconds: dict[str, float] = {}
    for name, value in dask_scheduler.cumulative_worker_metrics.items():
        if isinstance(name, tuple) and name[-1] == "seconds":
            activity = str(name[-2])
            seconds[activity] = seconds.get(activity, 0.0) + value
    return seconds


SIDES = ("incoming", "outgoing")


def tell_transfers(since: float, dask_worker: Any = None) -> dict[str, Any] | None:
    """Return transfers since then, by the scheduler's clock; None if the worker has no logs."""
    if not hasattr(dask_worker, "transfer_incoming_log"):
        return None
    return {
        "name": str(dask_worker.name),
        **{
            side: [
                _plain_transfer(transfer)
                for transfer in getattr(dask_worker, f"transfer_{side}_log")
                if transfer["start"] >= since
            ]
            for side in SIDES
        },
    }


def last_incoming(dask_worker: Any = None) -> str | None:
    """Return a mark of the last transfer in a worker's log, "" if it is empty, None without one."""
    log = getattr(dask_worker, "transfer_incoming_log", None)
    return None if log is None else "".join(map(_mark, list(log)[-1:]))


def tell_sizes(marks: dict[str, str], dask_worker: Any = None) -> list[int] | None:
    """Return the bytes of each transfer that arrived since the marks, which are by address.

    Times would not tell: a worker only guesses how far its clock is from the scheduler's, and is
    wrong by more than a short test takes where the machine is busy. The length of the log would
    not tell either, once it is full. Returns None if the log may have lost some of them.
    """
    log, mark = getattr(dask_worker, "transfer_incoming_log", None), marks.get(dask_worker.address)
    if log is None:
        return []
    since = [*takewhile(lambda transfer: _mark(transfer) != mark, reversed(log))]
    return None if len(since) == log.maxlen else [transfer["total"] for transfer in since]


def _mark(transfer: dict[str, Any]) -> str:
    return f"{transfer['start']!r} {transfer['stop']!r} {transfer['who']}"


def _plain_transfer(transfer: dict[str, Any]) -> dict[str, Any]:
    """Return a transfer as plain data; the worker already converts times to the scheduler's."""
    return {
        "start": transfer["start"],
        "stop": transfer["stop"],
        "duration": transfer["duration"],
        "peer": str(transfer["who"]),
        "keys": {str(key): nbytes for key, nbytes in transfer["keys"].items()},
        "bytes": transfer["total"],
        "compressed_bytes": transfer.get("compressed"),
        "bandwidth": transfer["bandwidth"],
    }


SAMPLER, CYCLE = "profile", "profile-cycle"
"""dask's names of what takes a sample, and of what ends a profile."""


def begin_profiles(intervals: dict[str, float], dask_worker: Any = None) -> dict[str, Any] | None:
    """End the profile so far, and set how often to sample, in milliseconds.

    Returns:
        When, and the intervals as they were; None for a worker that has no profile.
    """
    callbacks = getattr(dask_worker, "periodic_callbacks", {})
    if SAMPLER not in callbacks or not hasattr(dask_worker, "cycle_profile"):
        return None
    before = {name: callbacks[name].callback_time for name in (SAMPLER, CYCLE)}
    reset(intervals, dask_worker)
    dask_worker.cycle_profile()
    return {"ended": dask_worker.profile_keys_history[-1][0], "before": before}


def restore(before: dict[str, dict[str, float]], dask_worker: Any = None) -> None:
    """Sample as before, given by worker."""
    reset(before.get(dask_worker.address, {}), dask_worker)


def reset(intervals: dict[str, float], dask_worker: Any = None) -> None:
    """Set how often to sample, in milliseconds; it holds from the next sample on."""
    for name, milliseconds in intervals.items():
        dask_worker.periodic_callbacks[name].callback_time = milliseconds


def tell(ended: dict[str, float], dask_worker: Any = None) -> dict[str, Any] | None:
    """Return each profile since then, by prefix; None for a worker that has none.

    Args:
        ended: the time at which the profile before ended, by worker; all are told if it is not
            there.
    """
    if not hasattr(dask_worker, "cycle_profile"):
        return None
    dask_worker.cycle_profile()
    mark, history = ended.get(dask_worker.address), dask_worker.profile_keys_history
    since = list(takewhile(lambda entry: entry[0] != mark, reversed(history)))[::-1]
    ends = [moment for moment, _ in since]
    is_whole = mark is None or len(since) < len(history)  # else the one before the test is gone
    starts = [mark if mark and is_whole else ends[0], *ends]
    return {
        "name": str(dask_worker.name),
        "is_whole": is_whole,
        "intervals": {
            name: dask_worker.periodic_callbacks[name].callback_time
            for name in (SAMPLER, CYCLE)
            if name in dask_worker.periodic_callbacks
        },
        "profiles": [
            (start, moment, profiles)
            for start, (moment, profiles) in zip(starts, since, strict=False)
            if profiles
        ],
    }


EXECUTION = ("execute", "thread-cpu", "seconds")
"""Begin and end of the names of workers' measurements of the CPU time of tasks."""


def read_clocks(dask_worker: Any = None) -> dict[str, Any] | None:
    """Return CPU seconds of the process, and of tasks of this worker; None if it computes none."""
    measured = getattr(dask_worker, "digests_total", None)
    if measured is None:
        return None
    return {
        "process": [str(part) for part in process()],
        "used": time.process_time(),
        "execution": sum(
            seconds
            for name, seconds in measured.items()
            if isinstance(name, tuple) and (name[0], *name[-2:]) == EXECUTION
        ),
    }
