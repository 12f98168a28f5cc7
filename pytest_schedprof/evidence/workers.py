"""The kind `workers`: what workers' threads did, by dask's own statistical profile of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from distributed import profile as dasks
from msgspec import Struct

from pytest_schedprof.agent import facts, instruments
from pytest_schedprof.control.control import Control
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
)
from pytest_schedprof.formats.charts import (
    COLOURS,
    ROW,
    Scale,
    as_file,
    box,
    element,
    legend,
    time_axis,
    words,
)
from pytest_schedprof.formats.pictures import draw_flamegraph
from pytest_schedprof.model.evidence import ProfileSlice, WorkerProfile, WorkerProfiles
from pytest_schedprof.model.metric import EXECUTION, OVERHEAD
from pytest_schedprof.model.options import Seconds, check_above_zero
from pytest_schedprof.model.result import BackendResult

WIDTH, HEIGHT, LEFT, TOP = 900, 240, 60, 30
"""Pixels: of the plot, and of its margins."""

OTHERS = "others"


class Column(NamedTuple):
    """Amounts per second in a stretch of time, which is given in seconds."""

    start: float
    stop: float
    amounts: Mapping[str, float]


def draw_stacked(columns: Sequence[Column], title: str, unit: str) -> bytes:
    """Draw a column for each stretch; as many kinds have a colour as there are colours.

    Every column tells its amounts under the pointer, and the legend has the kinds by their number
    and whole amount, so that no colour has to be known.

    Args:
        columns: with amounts per second.
        unit: of amounts in a whole stretch.
    """
    whole: Counter[str] = Counter()
    for column in columns:
        for kind, amount in column.amounts.items():
            whole[kind] += amount * (column.stop - column.start)  # type: ignore[assignment]
    kinds = sorted(whole, key=lambda kind: (-whole[kind], kind))
    if len(kinds) > len(COLOURS):
        kinds = [*kinds[: len(COLOURS) - 1], OTHERS]
    most = max((sum(column.amounts.values()) for column in columns), default=0.0) or 1.0
    x = Scale(max((column.stop for column in columns), default=1.0), WIDTH, LEFT)
    y, bottom = Scale(most, HEIGHT), TOP + HEIGHT
    parts = [words(LEFT, TOP - 10, title), *time_axis(x, TOP, bottom)]
    parts += [words(4, TOP + 10, f"{most:.3g}"), words(4, bottom, "0")]
    parts += [_drawn(column, kinds, x, y) for column in columns]
    amounts = _merged(whole, kinds)
    texts = (f"{kind}: {amounts[kind]:.0f} {unit}" for kind in kinds)
    parts += legend(LEFT, bottom + 2 * ROW, texts)
    return as_file(LEFT + WIDTH + 2 * ROW, bottom + ROW * (len(kinds) + 3), parts)


def _merged(amounts: Mapping[str, float], kinds: Sequence[str]) -> dict[str, float]:
    merged = dict.fromkeys(kinds, 0.0)
    for kind, amount in amounts.items():
        merged[kind if kind in merged else OTHERS] += amount
    return merged


def _drawn(column: Column, kinds: Sequence[str], x: Scale, y: Scale) -> str:
    amounts = {kind: amount for kind, amount in _merged(column.amounts, kinds).items() if amount}
    parts = ", ".join(f"{kind} {amount:.2g}" for kind, amount in amounts.items())
    width = max(1.0, x(column.stop) - x(column.start) - 1)
    boxes, top = [], float(TOP + HEIGHT)
    for kind, amount in amounts.items():
        top -= y(amount)
        colour = COLOURS[kinds.index(kind)]
        boxes.append(box(x(column.start), top, width, y(amount), fill=colour))
    return element("g", *boxes, title=f"{column.start:.2f} to {column.stop:.2f} s: {parts}")


ALL_THREADS = "workers (all threads)"

MILLISECONDS = 1000.0

WHY_FORGOTTEN = (
    "workers keep no more profiles than distributed.admin.low-level-log-length; "
    "a longer workers.cycle needs fewer"
)

FORGOTTEN = f"the first samples are missing: {WHY_FORGOTTEN}"


class WorkersOptions(Struct, frozen=True):
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
        options = {instruments.SAMPLER: self.interval, instruments.CYCLE: self.cycle}
        return {name: seconds * MILLISECONDS for name, seconds in options.items() if seconds}


class WorkersKind(Kind, name="workers", description="what workers' threads did"):
    """Asks each worker for the profiles that `Client.profile` returns, of the test alone."""

    options_type = WorkersOptions

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        answers = self._control.call_workers(
            instruments.begin_profiles, self.options.milliseconds()
        )
        self._begun = {address: answer for address, answer in answers.items() if answer is not None}
        if answers and not self._begun:
            raise EvidenceUnavailableError(
                "workers have no profiles: they are hollow, or the configuration has "
                "distributed.worker.profile.enabled: false"
            )

    @property
    def _ended(self) -> dict[str, float]:
        return {address: answer["ended"] for address, answer in self._begun.items()}

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        answers = self._control.call_workers(instruments.tell, self._ended)
        complete = [answer for answer in answers.values() if answer]
        profiles = merged(complete, list(self._ended.values()))
        is_whole = all(answer["is_whole"] for answer in complete)
        if not profiles.samples:
            often = f"{profiles.interval_s * MILLISECONDS:g} ms"
            every = f"workers take one every {often} while a task runs"
            raise EvidenceUnavailableError(
                f"workers' profiles hold no sample: {every if is_whole else WHY_FORGOTTEN}"
            )
        stacks: Counter[tuple[str, ...]] = Counter()
        for prefix, profile in profiles.prefixes.items():
            stacks.update(dict(_stacks(profile, ("workers", prefix))))
        most = f"{1 / profiles.interval_s:g}" if profiles.interval_s else "1"
        title = f"samples of tasks per second; a thread that is always at work gives {most} at most"
        files = {
            "workers.json": msgspec.json.encode(profiles),
            "workers.svg": draw_flamegraph(stacks),
            "workers.timeline.svg": draw_stacked(_columns(profiles), title, "samples"),
        }
        return Brought(files, () if is_whole else (FORGOTTEN,))

    def close(self) -> None:
        if self.options.milliseconds():
            before = {address: answer["before"] for address, answer in self._begun.items()}
            self._control.call_workers(instruments.restore, before)


def merged(answers: Sequence[Mapping[str, Any]], ended: Sequence[float]) -> WorkerProfiles:
    """Merge the profiles of all workers.

    Args:
        ended: when the profiles before those of the test ended.
    """
    states_of: dict[str, list[Any]] = {}
    slices = []
    for answer in answers:
        for start, stop, profiles in answer["profiles"]:
            counts = {prefix: state["count"] for prefix, state in profiles.items()}
            # A worker's guess of the scheduler's clock may have gone back by some milliseconds.
            slices.append(ProfileSlice(answer["name"], start, max(start, stop), counts))
            for prefix, state in profiles.items():
                states_of.setdefault(prefix, []).append(state)
    states = {prefix: dasks.merge(*parts) for prefix, parts in states_of.items()}
    intervals: Mapping[str, float] = next(
        (answer["intervals"] for answer in answers if answer["intervals"]), {}
    )
    together = dasks.merge(*states.values())
    whole = _tree(together, together["count"], ALL_THREADS)
    prefixes = {name: _tree(state, state["count"], name) for name, state in states.items()}
    return WorkerProfiles(
        whole.description,
        whole.samples,
        whole.children,
        dict(sorted(prefixes.items(), key=lambda item: (-item[1].samples, item[0]))),
        tuple(sorted(slices, key=lambda part: part.stop)),
        min(ended or [part.start for part in slices], default=0.0),
        intervals.get(instruments.SAMPLER, 0.0) / MILLISECONDS,
        intervals.get(instruments.CYCLE, 0.0) / MILLISECONDS,
    )


def _columns(profiles: WorkerProfiles) -> list[Column]:
    """Return samples a second of tasks of each prefix, on a common grid of time."""
    cycle = profiles.cycle_s or 1.0
    columns: dict[int, Counter[str]] = {}
    for stretch in profiles.slices:
        for number, part in _parts(
            stretch.start - profiles.begun, stretch.stop - profiles.begun, cycle
        ):
            column = columns.setdefault(number, Counter())
            for prefix, count in stretch.samples.items():
                column[prefix] += count * part / cycle  # type: ignore[assignment]
    return [
        Column(number * cycle, (number + 1) * cycle, amounts)
        for number, amounts in sorted(columns.items())
    ]


def _parts(start: float, stop: float, cycle: float) -> Iterator[tuple[int, float]]:
    """Yield the stretches of the grid that a slice lies in, and which part of it is in each."""
    first, last = (max(0, int(moment / cycle)) for moment in (start, stop))
    if first == last or stop <= start:
        yield last, 1.0
        return
    for number in range(first, last + 1):
        overlap = min(stop, (number + 1) * cycle) - max(start, number * cycle)
        yield number, overlap / (stop - start)


def _tree(state: Mapping[str, Any], samples: int, description: str = "") -> WorkerProfile:
    """Build the tree, with the samples that dask does not give to the function they ended in.

    dask counts a sample only up to the caller of that function. A caller with one callee tells
    which function it was; of several callees all are named, joined by "or".
    """
    name = description or _name(state)
    below = list(state["children"].values())
    ended = state["count"] - sum(child["count"] for child in below)
    if len(below) == 1:
        return WorkerProfile(name, samples, (_tree(below[0], state["count"]),))
    children = [_tree(child, child["count"]) for child in below if child["count"]]
    if below and ended:
        children.append(WorkerProfile(" or ".join(_name(child) for child in below), ended))
    return WorkerProfile(name, samples, tuple(children))


def _name(state: Mapping[str, Any]) -> str:
    place = state["description"]
    return f"{place['name']} ({place['filename']}:{place['line_number']})"


def _stacks(
    profile: WorkerProfile, stack: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each stack with the number of samples that ended in its last function."""
    below = sum(child.samples for child in profile.children)
    if profile.samples > below:
        yield stack, profile.samples - below
    for child in profile.children:
        yield from _stacks(child, (*stack, child.description))


Process: TypeAlias = tuple[str, ...]
"""What identifies a process, also of another machine."""


class _Clocks(Struct, frozen=True):
    """CPU seconds so far."""

    of_processes: Mapping[Process, float]
    of_tasks: Mapping[str, float]
    """Of tasks' code, by the address of the worker."""


def watch_workers(control: Control) -> Callable[[], dict[str, float]]:
    """Begin to measure what workers use.

    The scheduler passes the question on, so it is asked before recordings begin and after they have
    ended.

    Returns what ends it and returns seconds by phase: none if workers came or left meanwhile, if
    they compute nothing, or if they are in the test's own process.
    """
    before = _read(control)

    def end() -> dict[str, float]:
        after = _read(control) if before else None
        return _spent(before, after) if before and after else {}

    return end


def _read(control: Control) -> _Clocks | None:
    answers = control.call_workers(instruments.read_clocks)
    clocks = {address: answer for address, answer in answers.items() if answer is not None}
    processes = {tuple(clock["process"]): float(clock["used"]) for clock in clocks.values()}
    mine = tuple(str(part) for part in facts.process())
    if not processes or mine in processes:
        return None
    return _Clocks(processes, {address: clock["execution"] for address, clock in clocks.items()})


def _spent(before: _Clocks, after: _Clocks) -> dict[str, float]:
    is_same = before.of_processes.keys() == after.of_processes.keys()
    if not is_same or before.of_tasks.keys() != after.of_tasks.keys():
        return {}
    used = sum(after.of_processes.values()) - sum(before.of_processes.values())
    execution = sum(after.of_tasks.values()) - sum(before.of_tasks.values())
    return {EXECUTION: execution, OVERHEAD: max(0.0, used - execution)}
