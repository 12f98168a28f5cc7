"""A scheduler on which a test's body runs, with what is recorded there."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from pytest_schedprof.agent import facts
from pytest_schedprof.assessment import Assessment
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.client import ClientWatch
from pytest_schedprof.evidence.gathering import Gathering
from pytest_schedprof.model.place import ClusterFacts, Environment
from pytest_schedprof.plan import Plan, Take
from pytest_schedprof.recorder import Recorder, Watch, no_watch

AGAINST, NULL = "against", "null"
"""Sides beside the one under test: the one that it is compared with, and one of the same code."""


class Side:
    """Of a test that is compared in turns there are several; of all others one."""

    def __init__(
        self,
        scheduler: SchedulerUnderTest | InProcess,
        plan: Plan,
        gathering: Gathering,
        name: str = "",
    ) -> None:
        self.scheduler = scheduler
        self.name = name
        """What messages call it; empty for the one under test."""
        # Now, for a test may leave the modules patched that tell it.
        self.environment = environment_of(scheduler.description)
        self.recorder = Recorder(
            scheduler.control,
            plan.backends,
            plan.settings.timeout,
            death=scheduler.cluster.death,
            targets=plan.settings.targets,
            is_shared=not scheduler.cluster.is_ours,
            watch=_watch(scheduler) if plan.times_client else no_watch,
        )
        scheduler.window = self.recorder.measure
        self.assessment = Assessment((), ())
        self.gathering = gathering
        """Of evidence: on all sides, for what it costs must be on both of a comparison."""

    @contextmanager
    def run(self, take: Take) -> Iterator[None]:
        """Around one run of the body."""
        gathered = self.gathering.take() if take.has_evidence else nullcontext()
        with gathered, self.recorder.round(take.backends, take.scale):
            yield

    @property
    def cluster(self) -> ClusterFacts:
        """What runs the body."""
        description = self.scheduler.description
        return ClusterFacts(
            kind=self.scheduler.cluster.kind,
            address=self.scheduler.address,
            workers=len(description["workers"]),
            threads=description["threads"],
        )


def _watch(scheduler: SchedulerUnderTest | InProcess) -> Watch:
    """Of a scheduler in the test's process it is not known which clients it will have."""
    return no_watch if isinstance(scheduler, InProcess) else ClientWatch(scheduler.client)


def environment_of(description: dict[str, Any]) -> Environment:
    """Of the test and of its scheduler, which describes itself."""
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
    )
