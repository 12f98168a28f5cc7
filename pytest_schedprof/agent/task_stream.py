"""The tasks that workers finished, as dask's own plugin notes them on the scheduler."""

from __future__ import annotations

from typing import Any

USERS = "_schedprof_users"
"""Attribute of a plugin that is there for us alone."""


def watch(dask_scheduler: Any = None) -> int:
    """Have tasks noted from here on; how many there were so far."""
    from distributed.diagnostics.task_stream import TaskStreamPlugin

    plugin = dask_scheduler.plugins.get(TaskStreamPlugin.name)
    if plugin is None:
        plugin = TaskStreamPlugin(dask_scheduler)
        setattr(plugin, USERS, 0)
        dask_scheduler.add_plugin(plugin)
    if hasattr(plugin, USERS):
        setattr(plugin, USERS, getattr(plugin, USERS) + 1)
    return int(plugin.index)


def unwatch(dask_scheduler: Any = None) -> None:
    """No more: a plugin costs something at every transition."""
    plugin = dask_scheduler.plugins.get("task-stream")
    if hasattr(plugin, USERS):
        setattr(plugin, USERS, getattr(plugin, USERS) - 1)
        if not getattr(plugin, USERS):
            dask_scheduler.remove_plugin(name=plugin.name)


def so_far(dask_scheduler: Any = None) -> int:
    """How many tasks were noted."""
    return int(dask_scheduler.plugins["task-stream"].index)


def tell_tasks(first: int, last: int, dask_scheduler: Any = None) -> list[dict[str, Any]]:
    """Of those noted, the ones with these numbers that are still known, as plain data."""
    plugin = dask_scheduler.plugins["task-stream"]
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
            {"action": each["action"], "start": each["start"], "stop": each["stop"]}
            for each in task["startstops"]
        ],
    }


def activities(dask_scheduler: Any = None) -> dict[str, float]:
    """Seconds that workers spent so far on each activity, as far as heartbeats have told."""
    seconds: dict[str, float] = {}
    for name, value in dask_scheduler.cumulative_worker_metrics.items():
        if isinstance(name, tuple) and name[-1] == "seconds":
            activity = str(name[-2])
            seconds[activity] = seconds.get(activity, 0.0) + value
    return seconds
