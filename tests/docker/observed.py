"""A user's test against a scheduler elsewhere, and what its profiles contain."""

from __future__ import annotations

import gzip

from support import Project

from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.store.records import read_record

BODY = """
from operator import neg

@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.5)
    if schedprof_scheduler.workers:
        wait(schedprof_scheduler.client.map(neg, range(200), pure=False))
"""
"""Workers cannot import the test module, so they get a function of the standard library."""

TRANSITION = "distributed.scheduler:SchedulerState._transition"


class Observed:
    """One run of that test with some backends."""

    def __init__(self, project: Project, address: str, *backends: str) -> None:
        run = project.path / f"run-{len(list(project.path.iterdir()))}"
        arguments = [f"--schedprof-cluster={address}", f"--schedprof={','.join(backends)}"]
        # This session must run without pytest-docker-compose and its warnings.
        arguments += [f"--schedprof-dir={run}", "-p", "no:docker_compose"]
        self.outcome = project.run_test(BODY, *arguments)
        (self._record,) = run.glob("*/tests/*/result.json")

    def calls_per_task(self, function: str) -> float:
        """Calls of a function per task, as counted by `counts`."""
        backend = self._backend("counts")
        assert backend.costs is not None
        (cost,) = [cost for cost in backend.costs.functions if cost.function == function]
        return cost.total["calls"] / backend.window.tasks

    def has_seen_burning(self, backend: str) -> bool:
        """Return whether a sampler saw half of the 0.5 s that `burn` runs in the scheduler.

        How often it saw anything else depends on the machine: where others want the processor too,
        py-spy finds a thread that waits for it in a write, as often as in `burn`.
        """
        shares = self._backend(backend).shares
        assert shares is not None
        (burning,) = [s for s in shares.functions if s.function.endswith("burn_scheduler_cpu")]
        return burning.share.value * shares.busy_samples > 25

    def artifact(self, backend: str) -> str:
        """Read the only file of a backend, which may be compressed."""
        (name,) = self._backend(backend).artifacts
        content = (self._record.parent / name).read_bytes()
        return (gzip.decompress(content) if name.endswith(".gz") else content).decode()

    def _backend(self, name: str) -> BackendResult:
        record = read_record(self._record, Result)
        (backend,) = [one for one in record.backends if one.backend == name]
        return backend
