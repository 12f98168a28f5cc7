"""gil: for which part of its busy time the scheduler's thread waits for the interpreter's lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_schedprof.agent import gil as agent
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.plain import PlainBackend
from pytest_schedprof.backends.remote import RemoteRecording, begun
from pytest_schedprof.errors import BackendNotPermittedError, BackendUnavailableError
from pytest_schedprof.formats.gil import GilFile, read_gil
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.metric import GIL_WAIT
from pytest_schedprof.model.profile import CostProfile, Namer
from pytest_schedprof.model.verdict import MIN_SAMPLES
from pytest_schedprof.remote.contract import Target


class GilBackend(PlainBackend):
    """Samples which system call the event loop's thread is in, from a process beside it."""

    name = "gil"
    rank = None
    artifacts = (Artifact("gil.json", JSON),)
    measures = frozenset({GIL_WAIT})
    drift = 0.0
    targets = frozenset({"scheduler"})
    sees_threads = False
    disturbs = False
    needs = ()

    def start(self, target: Target, *, timeout_s: float) -> RemoteRecording:
        """Begin to sample the thread that runs the scheduler."""
        answer = target.call(agent.start, target.client_id, timeout_s, timeout_s=2 * timeout_s)
        return begun(answer, target, self.name, refusal)

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Parse the file that the agent wrote."""
        found = read_gil(content)
        whole = {GIL_WAIT: found.share}
        return CostProfile(self.name, self.mode, {}, whole, doubt=_doubt(found))


def _doubt(found: GilFile) -> str:
    """Return why these samples cannot judge a limit; empty if they can."""
    if found.early:
        return "the sampler of waits for the GIL ended before the window did"
    if found.busy >= MIN_SAMPLES:
        return ""
    return (
        f"{found.busy} busy samples, at least {MIN_SAMPLES} are needed: give the scheduler "
        "more work"
    )


def refusal(answer: Mapping[str, Any], label: str) -> BackendUnavailableError:
    """Return why waits for the GIL cannot be seen, and what to do about it."""
    if answer["problem"] == "refused":
        return BackendNotPermittedError(
            f"schedprof: the system does not let children of {label} see its system calls",
            "containers: run it with --cap-add SYS_PTRACE",
        )
    told, remedy = {
        "shared": (
            f"gil observes the thread of one scheduler, and {label} runs workers and clients too",
            "a scheduler in a process of its own, as that of the fixture schedprof_scheduler",
        ),
        "none": (f"the Python of {label} runs without a GIL", "leave gil out"),
        "system": (
            f"gil needs Linux with glibc on x86-64 or ARM, and {label} runs "
            f"{answer.get('system', '')}",
            "pyspy with the option gil shows who holds it",
        ),
        "unseen": (
            f"the thread of {label} waited for the GIL, and no sample showed it",
            "try again on a machine with less load, or leave gil out",
        ),
        "failed": (
            f"the process that samples the thread of {label} did not start",
            "try again on a machine with less load, or leave gil out",
        ),
    }[answer["problem"]]
    return BackendUnavailableError(f"schedprof: {told}", remedy)


BACKEND: type[Backend] = GilBackend
