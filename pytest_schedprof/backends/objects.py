"""objects: how many Python objects and memory blocks a held task takes, and a released one leaves.

Exact at the price of three readings, which need nothing but the standard library.
"""

from __future__ import annotations

import msgspec

from pytest_schedprof.agent import objects as agent
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.remote import OWN_PROCESS, RemoteBackend, RemoteRecording
from pytest_schedprof.formats import read_json
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.metric import HELD
from pytest_schedprof.model.profile import CostProfile, Namer


class Reading(msgspec.Struct, frozen=True):
    """What the scheduler's process had at one moment."""

    tasks: int
    blocks: int
    types: dict[str, int]
    """Number of objects by type."""


class ObjectsFile(msgspec.Struct, frozen=True):
    """The readings of one recording."""

    schedprof_objects: int
    """Version of the format."""
    before: Reading
    held: Reading | None
    """When the most tasks were held; None if none was."""
    after: Reading


FEWEST = 100
"""Tasks that must be held at once: what does not depend on their number is divided by it too."""

RARE, FEW = 0.1, 100
"""Objects of a type of which there are fewer for each task, or fewer in all, are left out: those of
messages under way, of heartbeats and of timers, of which there are some dozens."""


class ObjectsRecording(RemoteRecording):
    """A recording that goes on until the tasks are released."""

    def end_window(self) -> None:
        """Take the reading of what is held now."""
        self._target.call(agent.end_window, self._token)


class ObjectsBackend(RemoteBackend):
    """Reads what the scheduler's process holds, with tasks and without."""

    name = "objects"
    rank = 52
    artifacts = (Artifact("objects.json", JSON),)
    measures = HELD
    sees_threads = True
    disturbs = True  # what other backends keep in the process would be counted
    outlasts = True
    module = agent
    recording = ObjectsRecording
    refusals = (
        (
            "shared",
            "objects counts those of a whole process, and {label} has those of workers and clients "
            "too",
            OWN_PROCESS,
        ),
    )

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        file = read_json(content, ObjectsFile, "objects")
        before, held, after = file.before, file.held, file.after
        fault = _fault(before, held, after) if held else "no task was held"
        if held is None or fault:
            lacks = dict.fromkeys(HELD, f"objects are per task held: {fault}")
            return CostProfile(self.name, self.mode, {}, lacks=lacks)
        tasks = held.tasks - after.tasks
        parts = {
            "objects": _grown(after, held, tasks),
            "objects_leaked": _grown(before, after, tasks),
        }
        functions: dict[str, dict[str, float]] = {}
        for metric, types in parts.items():
            for name, amount in types.items():
                functions.setdefault(name, {})[metric] = amount
        whole = {metric: sum(types.values()) for metric, types in parts.items()}
        whole["blocks"] = (held.blocks - after.blocks) / tasks
        whole["blocks_leaked"] = max(0.0, (after.blocks - before.blocks) / tasks)
        return CostProfile(self.name, self.mode, functions, whole)


def _fault(before: Reading, held: Reading, after: Reading) -> str:
    """Return why nothing can be told; empty if it can."""
    most, left = held.tasks - before.tasks, after.tasks - before.tasks
    if most < FEWEST:
        return f"{most} were held at once, and at least {FEWEST} are needed"
    if left > RARE * most:
        return (
            f"{left} of {most} were still held when the test's body had ended, so nothing shows "
            "what they take: release the futures before"
        )
    return ""


def _grown(fewer: Reading, more: Reading, tasks: int) -> dict[str, float]:
    """Return how many objects of each type there are more for each task; rare ones are left out."""
    grown = {
        name: (number - fewer.types.get(name, 0)) / tasks
        for name, number in sorted(more.types.items())
    }
    return {name: amount for name, amount in grown.items() if amount >= max(RARE, FEW / tasks)}


BACKEND: type[Backend] = ObjectsBackend
