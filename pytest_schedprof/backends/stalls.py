"""stalls: how long one callback occupied the scheduler's event loop, by CPU time."""

from __future__ import annotations

import msgspec

from pytest_schedprof.agent import stalls as agent
from pytest_schedprof.backends.contract import Backend, PlainBackend
from pytest_schedprof.backends.remote import RemoteRecording, already_at_work
from pytest_schedprof.control.control import Target
from pytest_schedprof.errors import BackendUnavailableError, FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.metric import STALLS
from pytest_schedprof.model.profile import CostProfile, Namer


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


def read_stalls(content: bytes) -> StallsFile:
    """Parse a file of durations.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=StallsFile)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of durations: {error} ({len(content)} bytes)"
        ) from error


class StallsBackend(PlainBackend):
    """Times the callbacks of the event loop, and the garbage collector's pauses."""

    name = "stalls"
    rank = 54
    artifacts = (Artifact("stalls.json", JSON),)
    measures = STALLS
    drift = 0.0
    targets = frozenset({"scheduler"})
    sees_threads = True
    disturbs = True  # every stack of another backend would have its wrapper
    needs = ()

    def start(self, target: Target, *, timeout_s: float) -> RemoteRecording:
        """Begin to time callbacks."""
        answer = target.call(agent.start, target.client_id, timeout_s=timeout_s)
        if answer.get("problem") == "busy":
            raise already_at_work(self.name, target.label, "stop it first")
        if answer.get("problem") == "shared":
            raise BackendUnavailableError(
                f"schedprof: stalls times the loop of a scheduler, and that of {target.label} runs "
                "workers and clients too",
                "a scheduler in a process of its own, as that of the fixture schedprof_scheduler",
            )
        if answer.get("problem") == "other-loop":
            raise BackendUnavailableError(
                f"schedprof: stalls sees the callbacks of asyncio's event loops, and that of "
                f"{target.label} is of {answer['loop']}",
                "dask's option distributed.admin.event-loop=asyncio",
            )
        return RemoteRecording(target, answer["token"], self.name)

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Parse the file that the agent wrote."""
        file = read_stalls(content)
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
            name: {"stall": each.cpu, "stall_wall": each.wall}
            for name, each in file.functions.items()
        }
        return CostProfile(self.name, self.mode, functions, whole)


BACKEND: type[Backend] = StallsBackend
