"""decisions: what the scheduler of a virtual cluster decides, in figures that are exact."""

from __future__ import annotations

from pytest_schedprof.agent import decisions as agent
from pytest_schedprof.backends.remote import RemoteBackend
from pytest_schedprof.formats.counted import read_decisions
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.metric import DECISIONS
from pytest_schedprof.model.profile import CostProfile, Namer


class DecisionsBackend(RemoteBackend):
    """Records the decisions of a scheduler in virtual time."""

    name = "decisions"
    rank = None
    artifacts = (Artifact("decisions.json", JSON),)
    measures = DECISIONS
    sees_threads = True
    disturbs = False
    is_reproduced = True
    module = agent
    refusals = (
        (
            "not-virtual",
            "decisions are exact in virtual time only, and that is not the time of {label}",
            "take the fixture schedprof_scheduler, with --schedprof-cluster=virtual",
        ),
    )

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        decided = read_decisions(content)
        return CostProfile(self.name, self.mode, {}, decided.figures, hash=decided.hash)
