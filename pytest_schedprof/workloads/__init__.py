"""Workloads that are hard for schedulers, each of a given size; a call returns when it is done.

They work on real and simulated clusters: tasks compute next to nothing, and no result is fetched.
`WORKLOADS` has all of them by name, for `pytest.mark.parametrize`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from distributed import Client

from pytest_schedprof.replay.replaying import replay
from pytest_schedprof.workloads import collections, shapes
from pytest_schedprof.workloads.collections import *  # noqa: F403
from pytest_schedprof.workloads.shapes import *  # noqa: F403

__all__ = ["WORKLOADS", "Workload", "replay", *collections.__all__, *shapes.__all__]

Workload: TypeAlias = Callable[[Client, int], None]
"""Takes a client and a size, which is about the number of tasks or of dependencies."""

WORKLOADS: dict[str, Workload] = {
    name: globals()[name] for name in sorted([*collections.__all__, *shapes.__all__])
}
