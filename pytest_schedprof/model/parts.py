"""The files of one recording, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_schedprof.model.workload import Graph, WorkerEvent, Workload


def joined(parts: Iterable[Workload]) -> Workload:
    """Return one workload from files that followed one another, in any order.

    Each file begins with what is there already, so that it can be read without the others: its
    workers, and results that later tasks need. Here these are left out. A file without its first
    block is of a recording that was killed when it had just begun that file.

    Raises:
        ValueError: the files are of different recordings.
    """
    found = list(parts)
    begun = [each for each in found if each.distributed] or found[:1]
    ordered = sorted(begun, key=lambda each: each.since)
    if len(ordered) > 1 and len({each.name for each in ordered}) > 1:
        raise ValueError("they are files of different recordings")
    whole = replace(ordered[0], graphs=[], releases=[], workers=[], results={})
    known: set[int] = set()
    there: set[int] = set()
    for part in ordered:
        late = part.since - whole.since
        whole.graphs += [_later(each, late, known) for each in part.graphs]
        whole.releases += [replace(each, time=each.time + late) for each in part.releases]
        whole.workers += _changes(part.workers, late, there)
        for number, result in part.results.items():
            whole.results.setdefault(number, replace(result, time=result.time + late))
        whole.bandwidth = part.bandwidth or whole.bandwidth
        whole.is_cut |= part.is_cut
    return whole


def _later(graph: Graph, late: float, known: set[int]) -> Graph:
    """Return a graph without tasks that were in an earlier one."""
    tasks = [each for each in graph.tasks if each.number not in known]
    known.update(each.number for each in tasks)
    return replace(graph, time=graph.time + late, tasks=tasks)


def _changes(events: Sequence[WorkerEvent], late: float, there: set[int]) -> list[WorkerEvent]:
    """Return the events without workers that join though they are there."""
    found = []
    for each in events:
        if each.has_joined and each.worker in there:
            continue
        (there.add if each.has_joined else there.discard)(each.worker)
        found.append(replace(each, time=each.time + late))
    return found
