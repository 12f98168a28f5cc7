"""A user's own plugin on the scheduler, for one run of a test's body."""

from __future__ import annotations

from typing import Any

import cloudpickle


async def begin(kind: str, pickled: bytes, dask_scheduler: Any = None) -> None:
    """Make a plugin of the class and add it."""
    plugin = cloudpickle.loads(pickled)()
    dask_scheduler.add_plugin(plugin, name=name_of(kind))
    await plugin.start(dask_scheduler)


def end(kind: str, dask_scheduler: Any = None) -> Any:
    """Remove the plugin, and return what it has to tell."""
    plugin = dask_scheduler.plugins[name_of(kind)]
    dask_scheduler.remove_plugin(name=name_of(kind))
    return plugin.evidence()


def name_of(kind: str) -> str:
    """Return the name under which the scheduler has the plugin."""
    return f"schedprof-{kind}"
