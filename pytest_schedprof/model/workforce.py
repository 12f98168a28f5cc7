"""The workers of a recorded workload: those that were there first, and who came and went later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_schedprof.model.workload import WorkerEvent, Workload


@dataclass(frozen=True, slots=True)
class Workforce:
    """What a cluster needs to have the workers of a recorded workload."""

    first: Sequence[WorkerEvent]
    """Those that were there when the first graph came, in the order in which they joined."""
    later: Sequence[WorkerEvent]
    """Who joined and who left afterwards."""

    @property
    def threads(self) -> int:
        """The number of threads that most of the first workers had."""
        counts = Counter(each.threads for each in self.first if each.threads)
        return counts.most_common(1)[0][0] if counts else 1


def workforce_of(workload: Workload) -> Workforce:
    """Return the workers of a recorded workload.

    A cluster has a worker at least. If there was none when the first graph came, as where they are
    started by need, the one that joined first counts as the first.
    """
    begun = workload.graphs[0].time if workload.graphs else float("inf")
    first: dict[int, WorkerEvent] = {}
    later = [each for each in workload.workers if each.time > begun]
    for each in workload.workers:
        if each.time <= begun and each.has_joined:
            first[each.worker] = each
        elif each.time <= begun:
            first.pop(each.worker, None)
    if not first and later and later[0].has_joined:
        first[later[0].worker] = later.pop(0)
    return Workforce(list(first.values()), later)
