"""The schedulers that one test runs on, each with its recorder and what was recorded there.

Most tests have one side. A test that is compared in turns (`--schedprof-against`) has a second one
with other code or settings.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from pytest_schedprof import __version__
from pytest_schedprof.agent import facts
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import CurrentWindow, SchedulerUnderTest
from pytest_schedprof.evidence.contract import Need
from pytest_schedprof.evidence.gathering import Gathering
from pytest_schedprof.evidence.phases import watch_client, watch_here
from pytest_schedprof.evidence.workers import watch_workers
from pytest_schedprof.judge.estimate import CONFIDENCE
from pytest_schedprof.measuring.assessment import NOT_ASSESSED
from pytest_schedprof.measuring.plan import BodyRun, Plan
from pytest_schedprof.measuring.recorder import Recorder, Watch, no_watch
from pytest_schedprof.model.result import ClusterFacts, Environment, Result


class Side:
    """One scheduler on which the test's body runs."""

    def __init__(
        self,
        test_id: str,
        started_at: float,
        plan: Plan,
        scheduler: SchedulerUnderTest | InProcess,
        gathering: Gathering,
        name: str = "",
    ) -> None:
        self.scheduler = scheduler
        self.name = name
        """What messages call this side; empty for the scheduler under test."""
        self.gathering = gathering
        """Gathers evidence on every side: its cost must be the same on both of a comparison."""
        # Read before the body runs: a test may leave the modules patched that this asks.
        self.environment = environment_of(scheduler.description)
        self.recorder = Recorder(
            scheduler.control,
            plan.backends,
            plan.settings.timeout,
            death=scheduler.cluster.death,
            watch=_watch(scheduler) if plan.times_client else no_watch,
            watch_workers=(
                # Of a scheduler that is known before the body runs.
                partial(watch_workers, scheduler.control)
                if plan.needs(Need.WORKER_PHASES) and not isinstance(scheduler, InProcess)
                else no_watch
            ),
            is_repeated=plan.rounds > 1 or plan.settings.against is not None,
        )
        scheduler.window = self.recorder.measure
        self.assessment = NOT_ASSESSED
        self._test_id = test_id
        self._started_at = started_at
        """In seconds since the epoch."""

    @contextmanager
    def run(self, body_run: BodyRun) -> Iterator[None]:
        gathered = self.gathering.around(body_run.scale) if body_run.has_evidence else nullcontext()
        self.scheduler.cluster.begin_round()
        window = CurrentWindow.of(self.recorder.measure, isinstance(self.scheduler, InProcess))
        with gathered, self.recorder.round(body_run.backends, body_run.scale), window:
            yield

    def record(self) -> Result:
        """Return the record of what has been assessed on this side so far."""
        began = datetime.fromtimestamp(self._started_at, UTC)
        description, cluster = self.scheduler.description, self.scheduler.cluster
        return Result(
            test_id=self._test_id,
            outcome="passed",
            started_at=began.isoformat(),
            cluster=ClusterFacts(
                kind=cluster.kind,
                address=self.scheduler.address,
                workers=len(description["workers"]),
                threads=description["threads"],
                options=dict(cluster.options),
            ),
            environment=self.environment,
            confidence=CONFIDENCE,
            schedprof_version=__version__,
            backends=self.assessment.backends,
            troubles=tuple(map(str, self.assessment.errors)),
            evidence=self.gathering.kept or (),
        )


class Sides(NamedTuple):
    """Both sides of one test."""

    tested: Side
    """The scheduler under test."""
    against: Side | None = None
    """The scheduler of other code or settings, if the test is compared in turns."""

    @property
    def all(self) -> list[Side]:
        """Every side in the order of a round's first turn, the one under test last."""
        return [self.against, self.tested] if self.against else [self.tested]


def _watch(scheduler: SchedulerUnderTest | InProcess) -> Watch:
    """Watch the test's client; in process, where clients are not known in advance, all of them."""
    if isinstance(scheduler, InProcess):
        return watch_here
    return partial(watch_client, scheduler.client)


def environment_of(description: dict[str, Any]) -> Environment:
    """Return the environment of this process and of the scheduler that gave the description."""
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        machine=platform.machine(),
        cpu_count=os.cpu_count() or 1,
        scheduler_python=description["python"],
        scheduler_platform=description["platform"],
        versions=description["versions"],
        test_versions=facts.versions(),
        scheduler_machine=description["machine"],
        configuration=description["configuration"],
        hash_seed=description["hash_seed"],
        test_hash_seed=facts.hash_seed(),
        event_loop=description.get("event_loop", ""),
        code=description["code"],
    )
