"""The kinds of evidence by their names, and those that a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dask.callbacks import Callback

from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import EvidenceUnavailableError, Kind, MakeKind
from pytest_schedprof.evidence.gathering import Gathering
from pytest_schedprof.evidence.local import LocalKind
from pytest_schedprof.evidence.memory import MemoryKind
from pytest_schedprof.evidence.phases import PhasesKind
from pytest_schedprof.evidence.report import ReportKind
from pytest_schedprof.evidence.span import SpanKind
from pytest_schedprof.evidence.tasks import TasksKind
from pytest_schedprof.evidence.transfers import TransfersKind
from pytest_schedprof.evidence.workers import WorkersKind

OF_A_CLUSTER: Mapping[str, MakeKind] = {
    "span": SpanKind,
    "report": ReportKind,
    "memory": MemoryKind,
    "tasks": TasksKind,
    "transfers": TransfersKind,
    "workers": WorkersKind,
    "phases": PhasesKind,
}


def gather(
    names: Sequence[str],
    scheduler: SchedulerUnderTest | InProcess,
    test_id: str,
    callbacks: Sequence[Callback] = (),
) -> Gathering:
    """For one test; callbacks are called by dask's local schedulers, where these are looked at."""
    makers: dict[str, Callable[[], Kind]] = {
        name: partial(_make, name, scheduler, test_id) for name in names
    }
    if "local" in names:
        makers["local"] = partial(LocalKind, callbacks)
    return Gathering(makers)


def _make(name: str, scheduler: SchedulerUnderTest | InProcess, test_id: str) -> Kind:
    if isinstance(scheduler, InProcess):
        raise EvidenceUnavailableError(
            "it needs the scheduler before the test begins: give the test schedprof_scheduler"
        )
    return OF_A_CLUSTER[name](scheduler, test_id)
