"""decisions: what the scheduler of a virtual cluster decides, in figures that are exact."""

from __future__ import annotations

from pytest_schedprof.agent import decisions as agent
from pytest_schedprof.backends.contract import Backend, PlainBackend
from pytest_schedprof.backends.remote import RemoteRecording, already_at_work
from pytest_schedprof.control.control import Target
from pytest_schedprof.errors import BackendUnavailableError
from pytest_schedprof.formats.counted import read_decisions
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.metric import DECISIONS
from pytest_schedprof.model.profile import CostProfile, Namer


class DecisionsBackend(PlainBackend):
    """Records the decisions of a scheduler in virtual time."""

    name = "decisions"
    rank = None
    artifacts = (Artifact("decisions.json", JSON),)
    measures = DECISIONS
    drift = 0.0
    targets = frozenset({"scheduler"})
    sees_threads = True
    disturbs = False
    needs = ()

    def start(self, target: Target, *, timeout_s: float) -> RemoteRecording:
        """Begin a window of the cluster's journal."""
        answer = target.call(agent.start, target.client_id, timeout_s=timeout_s)
        if answer.get("problem") == "busy":
            raise already_at_work(self.name, target.label, "stop it first")
        if answer.get("problem") == "not-virtual":
            raise BackendUnavailableError(
                "schedprof: decisions are exact in virtual time only, and that is not the time of "
                f"{target.label}",
                "take the fixture schedprof_scheduler, with --schedprof-cluster=virtual",
            )
        return RemoteRecording(target, answer["token"], self.name)

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Parse the file that the agent wrote."""
        found = read_decisions(content)
        return CostProfile(self.name, self.mode, {}, found.figures, hash=found.hash)


BACKEND: type[Backend] = DecisionsBackend
