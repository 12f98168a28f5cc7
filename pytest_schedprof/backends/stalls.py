"""stalls: how long one callback occupied the scheduler's event loop, by CPU time."""

from __future__ import annotations

import msgspec

from pytest_schedprof.agent import stalls as agent
from pytest_schedprof.backends.remote import RemoteBackend
from pytest_schedprof.formats import read_json
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.metric import STALLS
from pytest_schedprof.model.profile import CostProfile, Namer

OWN_PROCESS = "a scheduler in a process of its own, as that of the fixture schedprof_scheduler"
"""Remedy for what can be told of a scheduler only if nothing else runs in its process."""


class Longest(msgspec.Struct, frozen=True):
    """The longest callback of a function, in seconds."""

    cpu: float
    wall: float


class StallsFile(msgspec.Struct, frozen=True):
    """Durations of callbacks in one recording, in seconds."""

    schedprof_stalls: int
    """Version of the format."""
    callbacks: int
    cpu: float
    """CPU time of all callbacks, without the collector's."""
    longest: float
    longest_wall: float
    percentiles: dict[str, float]
    functions: dict[str, Longest]
    pauses: int
    """Number of garbage collections."""
    paused: float
    """CPU time of all of them."""
    longest_pause: float


class StallsBackend(RemoteBackend):
    """Times the callbacks of the event loop, and the garbage collector's pauses."""

    name = "stalls"
    rank = 54
    artifacts = (Artifact("stalls.json", JSON),)
    measures = STALLS
    sees_threads = True
    disturbs = True  # every stack of another backend would have its wrapper
    module = agent
    refusals = (
        (
            "shared",
            "stalls times the loop of a scheduler, and that of {label} runs workers and clients "
            "too",
            OWN_PROCESS,
        ),
        (
            "other-loop",
            "stalls sees the callbacks of asyncio's event loops, and that of {label} is of {loop}",
            "dask's option distributed.admin.event-loop=asyncio",
        ),
    )

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        file = read_json(content, StallsFile, "durations")
        parts = {f"stall_{name.replace('.', '')}": s for name, s in file.percentiles.items()}
        whole = {
            "stall": file.longest,
            **parts,
            "stall_wall": file.longest_wall,
            "gc_pauses": file.pauses,
            "gc_pause": file.longest_pause,
            "gc_share": file.paused / ((file.cpu + file.paused) or 1.0),
        }
        functions = {
            name: {"stall": longest.cpu, "stall_wall": longest.wall}
            for name, longest in file.functions.items()
        }
        return CostProfile(self.name, self.mode, functions, whole)
