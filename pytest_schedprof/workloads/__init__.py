"""Workloads that are hard for schedulers, each of a given size; a call returns when it is done.

They work on real and simulated clusters: tasks compute next to nothing, and no result is fetched.
`WORKLOADS` has all of them by name, for `pytest.mark.parametrize`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from distributed import Client

from pytest_schedprof.record.replaying import replay
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
    set_index,
    taken,
    tokens_of_data,
)
from pytest_schedprof.workloads.graphs import (
    aliases,
    all_to_all,
    annotated_tasks,
    anomaly_mean,
    cancelled,
    cancelled_tasks,
    deep_chains,
    fan_in,
    fan_out,
    many_prefixes,
    many_tiny_tasks,
    pure_tasks,
    retried,
    seen_again,
    stealing_imbalance,
    submission_only,
    tree_reduction,
)
from pytest_schedprof.workloads.recorded import recorded_rechunk, recorded_shuffle, recorded_sweep
from pytest_schedprof.workloads.requests import (
    broadcasts,
    coordination,
    heartbeats,
    many_clients,
    many_questions,
    moved_data,
    records,
    scaling,
    task_stream,
)
from pytest_schedprof.workloads.workers import (
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
    workload.__name__: workload
    for workload in (
        many_tiny_tasks,
        fan_out,
        fan_in,
        deep_chains,
        tree_reduction,
        all_to_all,
        rechunk,
        p2p_rechunk,
        stealing_imbalance,
        many_prefixes,
        aliases,
        annotated_tasks,
        deep_collections,
        high_level_graph,
        low_level_graph,
        submission_only,
        cancelled_tasks,
        many_clients,
        many_questions,
        broadcasts,
        coordination,
        records,
        scaling,
        moved_data,
        cancelled,
        seen_again,
        workers_leave,
        workers_restart,
        worker_churn,
        set_index,
        column_arithmetic,
        first_rows,
        anomaly_mean,
        recorded_shuffle,
        recorded_rechunk,
        recorded_sweep,
        pure_tasks,
        tokens_of_data,
        taken,
        fused,
        delayed_array,
        p2p_shuffle,
        task_stream,
        heartbeats,
        retried,
    )
}
