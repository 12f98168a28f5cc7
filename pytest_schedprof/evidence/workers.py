"""The kind `workers`: what workers' threads did, by dask's own statistical profile of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_schedprof.agent import reports
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
)
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.formats.flamegraph import draw_flamegraph
from pytest_schedprof.model.evidence import WorkerProfile
from pytest_schedprof.model.result import BackendResult

ROOT = {"name": "workers", "filename": "all threads", "line_number": 0}


class WorkersKind(Kind, name="workers", description="what workers' threads did"):
    """Asks the scheduler for the profile that `Client.profile` returns."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        self._begun_at = self._control.call(reports.clock)["time"]

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the profile as JSON and as a flame graph."""
        state = self._control.call(reports.profile, self._begun_at)
        profile = _tree({**state, "description": ROOT}, state["count"])
        if not profile.samples:
            raise EvidenceUnavailableError(
                "workers' profiles hold no sample: they take one every 10 ms, and keep them from "
                "one second to the next"
            )
        stacks = Counter(dict(_stacks(profile, ("workers",))))
        return Brought({"workers.json": as_json(profile), "workers.svg": draw_flamegraph(stacks)})


def _tree(state: Mapping[str, Any], samples: int) -> WorkerProfile:
    """Build the tree, with the samples that dask does not give to the function they ended in.

    dask counts a sample only up to the caller of that function. A caller with one callee tells
    which function it was; of several callees all are named, joined by "or".
    """
    below = list(state["children"].values())
    ended = state["count"] - sum(child["count"] for child in below)
    if len(below) == 1:
        return WorkerProfile(_name(state), samples, (_tree(below[0], state["count"]),))
    children = [_tree(child, child["count"]) for child in below if child["count"]]
    if below and ended:
        children.append(WorkerProfile(" or ".join(_name(child) for child in below), ended))
    return WorkerProfile(_name(state), samples, tuple(children))


def _name(state: Mapping[str, Any]) -> str:
    told = state["description"]
    return f"{told['name']} ({told['filename']}:{told['line_number']})"


def _stacks(
    profile: WorkerProfile, stack: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each stack with the number of samples that ended in its last function."""
    below = sum(child.samples for child in profile.children)
    if profile.samples > below:
        yield stack, profile.samples - below
    for child in profile.children:
        yield from _stacks(child, (*stack, child.description))
