"""Reads the finished tasks that dask's own plugin records on the scheduler."""

from __future__ import annotations

from typing import Any

NAME = "task-stream"
KEPT = "_schedprof_task_stream"
"""Attribute of the scheduler with our plugin, and how many holders and watchers it has."""


def hold(dask_scheduler: Any = None) -> None:
    """Create the plugin for later use; it records nothing yet."""
    from distributed.diagnostics.task_stream import TaskStreamPlugin

    if not hasattr(dask_scheduler, KEPT):
        kept = {"plugin": TaskStreamPlugin(dask_scheduler), "holders": 0, "watchers": 0}
        setattr(dask_scheduler, KEPT, kept)
    getattr(dask_scheduler, KEPT)["holders"] += 1


def let_go(dask_scheduler: Any = None) -> None:
    """Release the plugin; the last holder removes it with what it recorded."""
    kept = getattr(dask_scheduler, KEPT)
    kept["holders"] -= 1
    if not kept["holders"]:
        _remove(kept["plugin"], dask_scheduler)
        delattr(dask_scheduler, KEPT)


def watch(dask_scheduler: Any = None) -> int:
    """Start to record tasks; return the number recorded so far."""
    kept = getattr(dask_scheduler, KEPT)
    kept["watchers"] += 1
    if NAME not in dask_scheduler.plugins:  # the dashboard's own plugin does as well
        dask_scheduler.add_plugin(kept["plugin"])
    return so_far(dask_scheduler)


def unwatch(dask_scheduler: Any = None) -> None:
    """Stop recording; the last watcher removes the plugin, which costs time at each transition."""
    kept = getattr(dask_scheduler, KEPT)
    kept["watchers"] -= 1
    if not kept["watchers"]:
        _remove(kept["plugin"], dask_scheduler)


def _remove(plugin: Any, dask_scheduler: Any) -> None:
    if dask_scheduler.plugins.get(NAME) is plugin:
        dask_scheduler.remove_plugin(name=NAME)


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
            {"action": each["action"], "start": each["start"], "stop": each["stop"]}
            for each in task["startstops"]
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
