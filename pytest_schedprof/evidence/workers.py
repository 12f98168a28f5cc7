"""The kind `workers`: what workers' threads did, by dask's own statistical profile of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import profile as dasks

from pytest_schedprof.agent import doings
from pytest_schedprof.backends.options import Seconds, check_above_zero
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
)
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.formats.flamegraph import draw_flamegraph
from pytest_schedprof.formats.stacked import Column, draw_stacked
from pytest_schedprof.model.evidence import ProfileSlice, WorkerDoings, WorkerProfile
from pytest_schedprof.model.result import BackendResult

ALL_THREADS = "workers (all threads)"

MILLISECONDS = 1000.0

WHY_FORGOTTEN = (
    "workers keep no more profiles than distributed.admin.low-level-log-length; "
    "a longer workers.cycle needs fewer"
)

FORGOTTEN = f"the first samples are missing: {WHY_FORGOTTEN}"


@dataclass(frozen=True, slots=True)
class WorkersOptions:
    """Options of the kind; without them workers sample as dask's configuration says."""

    interval: Seconds | None = None
    """Between two samples."""
    cycle: Seconds | None = None
    """Of a slice of the timeline."""

    def __post_init__(self) -> None:
        check_above_zero("workers.interval", self.interval)
        check_above_zero("workers.cycle", self.cycle)

    def milliseconds(self) -> dict[str, float]:
        """Return what is given, by dask's names."""
        given = {doings.SAMPLER: self.interval, doings.CYCLE: self.cycle}
        return {name: seconds * MILLISECONDS for name, seconds in given.items() if seconds}


class WorkersKind(Kind, name="workers", description="what workers' threads did"):
    """Asks each worker for the profiles that `Client.profile` returns, of the test alone."""

    options_type = WorkersOptions

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        begun = self._control.call_workers(doings.begin, self.options.milliseconds())
        self._begun = {address: each for address, each in begun.items() if each is not None}
        if begun and not self._begun:
            raise EvidenceUnavailableError(
                "workers have no profiles: they are hollow, or the configuration has "
                "distributed.worker.profile.enabled: false"
            )

    @property
    def _ended(self) -> dict[str, float]:
        return {address: each["ended"] for address, each in self._begun.items()}

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the profiles as JSON, as a flame graph, and over time."""
        told = self._control.call_workers(doings.tell, self._ended)
        all_told = [each for each in told.values() if each]
        doings_found = doings_of(all_told, list(self._ended.values()))
        is_whole = all(each["is_whole"] for each in all_told)
        if not doings_found.samples:
            often = f"{doings_found.interval_s * MILLISECONDS:g} ms"
            every = f"workers take one every {often} while a task runs"
            raise EvidenceUnavailableError(
                f"workers' profiles hold no sample: {every if is_whole else WHY_FORGOTTEN}"
            )
        files = {
            "workers.json": as_json(doings_found),
            "workers.svg": draw_flamegraph(_stacks_by_prefix(doings_found)),
            "workers.timeline.svg": _timeline(doings_found),
        }
        return Brought(files, () if is_whole else (FORGOTTEN,))

    def close(self) -> None:
        """Have workers sample as before."""
        if self.options.milliseconds():
            before = {address: each["before"] for address, each in self._begun.items()}
            self._control.call_workers(doings.restore, before)


def doings_of(told: Sequence[Mapping[str, Any]], ended: Sequence[float]) -> WorkerDoings:
    """Merge the profiles of all workers.

    Args:
        told: the answers of workers.
        ended: when the profiles before those of the test ended.
    """
    states = _states(told)
    intervals: Mapping[str, float] = next(
        (each["intervals"] for each in told if each["intervals"]), {}
    )
    whole = _tree(dasks.merge(*states.values()), ALL_THREADS)
    prefixes = {prefix: _tree(state, prefix) for prefix, state in states.items()}
    return WorkerDoings(
        whole.description,
        whole.samples,
        whole.children,
        dict(sorted(prefixes.items(), key=lambda item: (-item[1].samples, item[0]))),
        tuple(sorted(_slices(told), key=lambda each: each.stop)),
        min(ended, default=0.0),
        intervals.get(doings.SAMPLER, 0.0) / MILLISECONDS,
        intervals.get(doings.CYCLE, 0.0) / MILLISECONDS,
    )


def _states(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for each in told:
        for _, _, profiles in each["profiles"]:
            for prefix, state in profiles.items():
                found.setdefault(prefix, []).append(state)
    return {prefix: dasks.merge(*states) for prefix, states in found.items()}


def _slices(told: Sequence[Mapping[str, Any]]) -> Iterator[ProfileSlice]:
    for each in told:
        for start, stop, profiles in each["profiles"]:
            counts = {prefix: state["count"] for prefix, state in profiles.items()}
            # A worker's guess of the scheduler's clock may have gone back by some milliseconds.
            yield ProfileSlice(each["name"], start, max(start, stop), counts)


def _timeline(found: WorkerDoings) -> bytes:
    most = f"{1 / found.interval_s:g}" if found.interval_s else "1"
    title = f"samples of tasks per second; a thread that is always at work gives {most} at most"
    return draw_stacked(_columns(found), title, "samples")


def _columns(found: WorkerDoings) -> list[Column]:
    """Return samples a second of tasks of each prefix, on a common grid of time."""
    cycle = found.cycle_s or 1.0
    columns: dict[int, Counter[str]] = {}
    for each in found.slices:
        for number, part in _parts(each.start - found.begun, each.stop - found.begun, cycle):
            column = columns.setdefault(number, Counter())
            for prefix, count in each.samples.items():
                column[prefix] += count * part / cycle  # type: ignore[assignment]
    return [
        Column(number * cycle, (number + 1) * cycle, amounts)
        for number, amounts in sorted(columns.items())
    ]


def _parts(start: float, stop: float, cycle: float) -> Iterator[tuple[int, float]]:
    """Yield the stretches of the grid that a slice lies in, and which part of it is in each."""
    first, last = (max(0, int(at / cycle)) for at in (start, stop))
    if first == last or stop <= start:
        yield last, 1.0
        return
    for number in range(first, last + 1):
        overlap = min(stop, (number + 1) * cycle) - max(start, number * cycle)
        yield number, overlap / (stop - start)


def _tree(state: Mapping[str, Any], description: str = "") -> WorkerProfile:
    """Build the tree, with the samples that dask does not give to the function they ended in.

    dask counts a sample only up to the caller of that function. A caller with one callee tells
    which function it was; of several callees all are named, joined by "or".
    """
    return _branch(state, state["count"], description)


def _branch(state: Mapping[str, Any], samples: int, description: str = "") -> WorkerProfile:
    name = description or _name(state)
    below = list(state["children"].values())
    ended = state["count"] - sum(child["count"] for child in below)
    if len(below) == 1:
        return WorkerProfile(name, samples, (_branch(below[0], state["count"]),))
    children = [_branch(child, child["count"]) for child in below if child["count"]]
    if below and ended:
        children.append(WorkerProfile(" or ".join(_name(child) for child in below), ended))
    return WorkerProfile(name, samples, tuple(children))


def _name(state: Mapping[str, Any]) -> str:
    told = state["description"]
    return f"{told['name']} ({told['filename']}:{told['line_number']})"


def _stacks_by_prefix(found: WorkerDoings) -> Counter[tuple[str, ...]]:
    return Counter(
        dict(
            stack
            for prefix, profile in found.prefixes.items()
            for stack in _stacks(profile, ("workers", prefix))
        )
    )


def _stacks(
    profile: WorkerProfile, stack: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each stack with the number of samples that ended in its last function."""
    below = sum(child.samples for child in profile.children)
    if profile.samples > below:
        yield stack, profile.samples - below
    for child in profile.children:
        yield from _stacks(child, (*stack, child.description))
