"""objects: how many Python objects and memory blocks a held task takes, and a released one leaves.

Exact at the price of three readings, which need nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pytest_schedprof.agent import objects as agent
from pytest_schedprof.backends.contract import Backend, Setting
from pytest_schedprof.backends.options import read_options
from pytest_schedprof.backends.remote import RemoteRecording, already_at_work
from pytest_schedprof.control.control import Target
from pytest_schedprof.errors import BackendUnavailableError, FormatError
from pytest_schedprof.formats import UNREADABLE
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


def read_objects(content: bytes) -> ObjectsFile:
    """Parse a file of readings.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=ObjectsFile)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of objects: {error} ({len(content)} bytes)"
        ) from error


FEWEST = 100
"""Tasks that must be held at once: what does not depend on their number is divided by it too."""

RARE, FEW = 0.1, 100
"""Objects of a type of which there are fewer for each task, or fewer in all, are left out: those of
messages under way, of heartbeats and of timers, of which there are some dozens."""


@dataclass(frozen=True, slots=True)
class ObjectsOptions:
    """The backend has no options."""


class ObjectsBackend(Backend):
    """Reads what the scheduler's process holds, with tasks and without."""

    name = "objects"
    rank = 52
    artifacts = (Artifact("objects.json", JSON),)
    options_type = ObjectsOptions
    measures = HELD
    drift = 0.0
    targets = frozenset({"scheduler"})
    sees_threads = True
    disturbs = True  # what other backends keep in the process would be counted
    outlasts = True
    needs = ()

    def __init__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str] = ()
    ) -> None:
        read_options(ObjectsOptions, self.name, options)

    @property
    def settings(self) -> Mapping[str, Setting]:
        """No options."""
        return {}

    def start(self, target: Target, *, timeout_s: float) -> ObjectsRecording:
        """Take the first reading."""
        answer = target.call(agent.start, target.client_id, timeout_s=timeout_s)
        if answer.get("problem") == "busy":
            raise already_at_work(self.name, target.label, "stop it first")
        if answer.get("problem") == "shared":
            raise BackendUnavailableError(
                f"schedprof: objects counts those of a whole process, and {target.label} has those "
                "of workers and clients too",
                "a scheduler in a process of its own, as that of the fixture schedprof_scheduler",
            )
        return ObjectsRecording(target, answer["token"], self.name)

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Parse the file that the agent wrote, and divide by the tasks."""
        file = read_objects(content)
        before, held, after = file.before, file.held, file.after
        if held is None or (fault := _fault(before, held, after)):
            told = fault if held else "no task was held"
            lacks = dict.fromkeys(HELD, f"objects are per task held: {told}")
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


class ObjectsRecording(RemoteRecording):
    """A recording that goes on until the tasks are released."""

    def end_window(self) -> None:
        """Take the reading of what is held now."""
        self._target.call(agent.end_window, self._token)


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
    found = {
        name: (number - fewer.types.get(name, 0)) / tasks
        for name, number in sorted(more.types.items())
    }
    return {name: each for name, each in found.items() if each >= max(RARE, FEW / tasks)}


BACKEND: type[Backend] = ObjectsBackend
