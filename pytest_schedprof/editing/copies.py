"""Several times the tasks or the workers of a recorded workload."""

from __future__ import annotations

from dataclasses import replace

from pytest_schedprof.editing.numbering import Offsets, first_free, moved, together
from pytest_schedprof.model.workload import Workload


def scale(workload: Workload, *, tasks: int = 1, workers: int = 1, apart: float = 0.0) -> Workload:
    """Return a workload with several times the tasks, the workers or both.

    Each copy of a graph has groups and a client of its own, and the prefixes of the first. Copies
    of tasks that are restricted to workers are shared out to the copies of these.

    Args:
        workload: what is copied.
        tasks: how many times each graph is there.
        workers: how many times each worker is there.
        apart: seconds from one copy of the graphs to the next.
    """
    free = first_free(workload)
    work = replace(workload, workers=[])
    steps = [
        Offsets(free.tasks * n, free.groups * n, free.clients * n, free.workers * (n % workers))
        for n in range(tasks)
    ]
    copies = [moved(work, replace(by, seconds=apart * n)) for n, by in enumerate(steps)]
    staff = Workload(workers=workload.workers)
    more = [moved(staff, Offsets(workers=free.workers * number)) for number in range(workers)]
    return together([*copies, *more])
