"""Records what the scheduler of a virtual cluster decides."""

from __future__ import annotations

from typing import Any

from .recordings import Recording, as_json, begin, under_way

WORLD = "schedprof-virtual"
"""Name of the scheduler's extension that a virtual cluster has."""


class DecisionsRecording(Recording):
    """The window of the virtual cluster's journal."""

    kind = "decisions"

    def __init__(self, client: str, world: Any) -> None:
        super().__init__(client)
        self._world = world
        world.begin()

    async def end(self, timeout: float) -> dict[str, Any]:
        if self._world is not None:
            self.content, self._world = as_json(self._world.end()), None
        return {}


def world_of(holder: Any) -> Any:
    """Return what knows a virtual cluster; None if the process that this represents has none."""
    return getattr(holder, "extensions", {}).get(WORLD)


def plan(
    seconds: float,
    fault: str,
    workers: list[str],
    lasting: float | None,
    dask_scheduler: Any = None,
) -> str:
    """Plan what happens to workers; return why that is not possible, if so."""
    world = world_of(dask_scheduler)
    if world is None:
        return "only workers of a cluster in virtual time can be told: --schedprof-cluster=virtual"
    obstacle: str = world.plan(seconds, fault, workers, lasting)
    return obstacle


def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin a window."""
    world = world_of(dask_scheduler)
    if world is None:
        return {"problem": "not-virtual"}
    if DecisionsRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    return begin(dask_scheduler, DecisionsRecording(client, world))
