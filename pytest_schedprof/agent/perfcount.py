"""Counts the instructions of the event loop's thread by a counter of the processor."""

from __future__ import annotations

import os
import platform
import struct
from pathlib import Path
from typing import Any

from .perf_events import DISABLE, ENABLE, control, instructions, is_known_here, open_counter
from .recordings import Recording, as_json, begin, under_way

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class PerfcountRecording(Recording):
    """A counter at work."""

    kind = "perfcount"

    def __init__(self, client: str, descriptor: int) -> None:
        super().__init__(client)
        self._descriptor = descriptor
        control(descriptor, ENABLE)

    async def end(self, timeout: float) -> dict[str, Any]:
        """Read the counter, and for how long it counted."""
        if self.content:
            return {}
        control(self._descriptor, DISABLE)
        count, enabled, running = struct.unpack("QQQ", os.read(self._descriptor, 24))
        record = {"schedprof_perfcount": 1, "instructions": count}
        self.content = as_json({**record, "enabled_ns": enabled, "running_ns": running})
        return {}

    def remove(self) -> None:
        """Close the counter."""
        super().remove()
        os.close(self._descriptor)


def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to count; return a `token` or a `problem`."""
    if PerfcountRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    if not is_known_here():
        return {"problem": "system", "system": f"{platform.system()} on {platform.machine()}"}
    try:
        descriptor = open_counter(instructions())
    except OSError as error:
        paranoid = PARANOID.read_text().strip() if PARANOID.exists() else ""
        return {"problem": "refused", "error": error.errno, "paranoid": paranoid}
    return begin(dask_scheduler, PerfcountRecording(client, descriptor))
