"""Workloads that are hard for schedulers, each of a given size; a call returns when it is done.

They work on real and simulated clusters: tasks compute next to nothing, and no result is fetched.
`WORKLOADS` has all of them by name, for `pytest.mark.parametrize`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from distributed import Client

from pytest_schedprof.replay.replaying import replay
from pytest_schedprof.workloads.collections import (
    column_arithmetic,
    deep_collections,
    delayed_array,
    first_rows,
    fused,
    high_level_graph,
    low_level_graph,
    p2p_rechunk,
    p2p_shuffle,
    rechunk,
    recorded_rechunk,
    recorded_shuffle,
    recorded_sweep,
    set_index,
    taken,
    tokens_of_data,
)
from pytest_schedprof.workloads.shapes import (
    aliases,
    all_to_all,
    annotated_tasks,
    anomaly_mean,
    broadcasts,
    cancelled,
    cancelled_tasks,
    coordination,
    deep_chains,
    fan_in,
    fan_out,
    heartbeats,
    many_clients,
    many_prefixes,
    many_questions,
    many_tiny_tasks,
    moved_data,
    pure_tasks,
    records,
    retried,
    scaling,
    seen_again,
    stealing_imbalance,
    submission_only,
    task_stream,
    tree_reduction,
    worker_churn,
    workers_leave,
    workers_restart,
)

__all__ = [
    "WORKLOADS",
    "Workload",
    "aliases",
    "all_to_all",
    "annotated_tasks",
    "anomaly_mean",
    "broadcasts",
    "cancelled",
    "cancelled_tasks",
    "column_arithmetic",
    "coordination",
    "deep_chains",
    "deep_collections",
    "delayed_array",
    "fan_in",
    "fan_out",
    "first_rows",
    "fused",
    "heartbeats",
    "high_level_graph",
    "low_level_graph",
    "many_clients",
    "many_prefixes",
    "many_questions",
    "many_tiny_tasks",
    "moved_data",
    "p2p_rechunk",
    "p2p_shuffle",
    "pure_tasks",
    "rechunk",
    "recorded_rechunk",
    "recorded_shuffle",
    "recorded_sweep",
    "records",
    "replay",
    "retried",
    "scaling",
    "seen_again",
    "set_index",
    "stealing_imbalance",
    "submission_only",
    "taken",
    "task_stream",
    "tokens_of_data",
    "tree_reduction",
    "worker_churn",
    "workers_leave",
    "workers_restart",
]

Workload: TypeAlias = Callable[[Client, int], None]
"""Takes a client and a size, which is about the number of tasks or of dependencies."""

WORKLOADS: dict[str, Workload] = {
    name: globals()[name] for name in __all__ if name not in ("WORKLOADS", "Workload", "replay")
}
