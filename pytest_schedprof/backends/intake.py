"""intake: CPU time of the scheduler's `update_graph`, by step."""

from __future__ import annotations

from pytest_schedprof.agent import intake as agent
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.remote import OWN_PROCESS, RemoteBackend
from pytest_schedprof.formats.counted import read_intake
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.evidence import ONCE, PREFIX, STEPS
from pytest_schedprof.model.metric import INTAKE
from pytest_schedprof.model.profile import CostProfile, Namer


class IntakeBackend(RemoteBackend):
    """Times the steps in which a graph becomes tasks that are ready to run."""

    name = "intake"
    rank = 56
    artifacts = (Artifact("intake.json", JSON),)
    measures = INTAKE
    sees_threads = True
    disturbs = True  # every stack of another backend would have its wrappers
    module = agent
    refusals = (
        (
            "shared",
            "intake times how a scheduler takes in graphs, and that of {label} may start and end "
            "within the test",
            OWN_PROCESS,
        ),
    )

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        file = read_intake(content)
        functions = {
            f"{PREFIX}{step}": {"intake_cpu": cost.cpu, "intake_calls": cost.calls}
            for step, cost in file.steps.items()
        }
        whole = {
            "intake_cpu": sum(cost.cpu for step, cost in file.steps.items() if step != ONCE),
            "intake_calls": file.steps["rest"].calls if "rest" in file.steps else 0,
        }
        lacks = {
            f"{PREFIX}{step}": f"this release of distributed has no function for the step {step!r}"
            for step in STEPS
            if step not in file.steps
        }
        return CostProfile(self.name, self.mode, functions, whole, lacks=lacks)


BACKEND: type[Backend] = IntakeBackend
