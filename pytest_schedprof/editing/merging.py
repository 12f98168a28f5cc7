"""Several recorded workloads as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pytest_schedprof.editing.numbering import Offsets, first_free, moved, together
from pytest_schedprof.model.workload import Workload


def merge(workloads: Sequence[Workload], *, by_clock: bool = False) -> Workload:
    """Return all workloads as one: no task, group, client or worker belongs to two of them.

    Args:
        workloads: at least one.
        by_clock: keep the time between them, by the clock of their schedulers; otherwise all begin
            at the same time.

    Raises:
        ValueError: by the clock, and the time at which one of them began is not known.
    """
    begun = [datetime.fromisoformat(each.begun) for each in workloads] if by_clock else []
    by, found = Offsets(), []
    for number, each in enumerate(workloads):
        late = (begun[number] - min(begun)).total_seconds() if by_clock else 0.0
        found.append(moved(each, replace(by, seconds=late)))
        by += first_free(each)
    return replace(
        together(found),
        distributed=" and ".join(dict.fromkeys(each.distributed for each in workloads)),
        begun=min(begun).isoformat() if by_clock else workloads[0].begun,
        name=workloads[0].name if len(workloads) == 1 else "",
        bandwidth=max(each.bandwidth for each in workloads),
        is_cut=any(each.is_cut for each in workloads),
    )
