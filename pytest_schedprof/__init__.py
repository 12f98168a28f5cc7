"""pytest-schedprof: scheduler performance regression testing for dask.distributed.

PYTEST_DONT_REWRITE: the process of tests in virtual time imports this package before pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_schedprof.clusters.under_test import SchedulerUnderTest, measure
    from pytest_schedprof.measuring.ancestor import pyspy_on_scheduler, viztrace_scheduler
    from pytest_schedprof.measuring.profile import SchedulerProfile, profile_scheduler
    from pytest_schedprof.replay.fetching import record_workload

__version__ = "0.1.0"
__all__ = [
    "SchedulerProfile",
    "SchedulerUnderTest",
    "__version__",
    "measure",
    "profile_scheduler",
    "pyspy_on_scheduler",
    "record_workload",
    "viztrace_scheduler",
]

_HOMES = {
    "SchedulerProfile": "pytest_schedprof.measuring.profile",
    "SchedulerUnderTest": "pytest_schedprof.clusters.under_test",
    "measure": "pytest_schedprof.clusters.under_test",
    "profile_scheduler": "pytest_schedprof.measuring.profile",
    "pyspy_on_scheduler": "pytest_schedprof.measuring.ancestor",
    "record_workload": "pytest_schedprof.replay.fetching",
    "viztrace_scheduler": "pytest_schedprof.measuring.ancestor",
}
"""Modules of the public names, imported at first use: pytest imports this file at every start."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
