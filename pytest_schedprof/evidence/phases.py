"""The kind `phases`: CPU time of a computation in client, scheduler and workers, by phase."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from operator import attrgetter
from typing import Any

import msgspec
from distributed import Client

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.clusters.under_test import IN_BODYS_THREAD
from pytest_schedprof.evidence.contract import (
    TOGETHER,
    Brought,
    EvidenceUnavailableError,
    Kind,
    Need,
    RunFigures,
)
from pytest_schedprof.formats.charts import (
    COLOURS,
    ROW,
    Scale,
    as_file,
    box,
    element,
    legend,
    words,
)
from pytest_schedprof.judge.phases import bar_of, phases_of
from pytest_schedprof.model.evidence import Phases
from pytest_schedprof.model.limit import MIN_SAMPLES
from pytest_schedprof.model.metric import RECEIVING
from pytest_schedprof.model.result import BackendResult

PatchTarget = tuple[str, str]
"""A module and the qualified name of a function or method in it."""


class Stopwatch:
    """Wraps functions while active; only the outermost call counts."""

    def __init__(self, places: Mapping[str, Sequence[PatchTarget]]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._places = places
        self._thread = threading.local()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Wrap the functions; those that this release of dask lacks are left out."""
        with ExitStack() as opened:
            for phase, places in self._places.items():
                for place in places:
                    self._wrap(phase, *place, opened)
            yield

    def _wrap(self, phase: str, module: str, name: str, opened: ExitStack) -> None:
        *owners, last = name.split(".")
        try:
            holder: Any = import_module(module)
            holder = attrgetter(".".join(owners))(holder) if owners else holder
            function = vars(holder)[last]
        except (ImportError, AttributeError, KeyError):
            return
        is_static = isinstance(function, staticmethod)
        timed = self._timed(phase, function.__func__ if is_static else function)
        replace(holder, last, staticmethod(timed) if is_static else timed, opened)

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:
            if getattr(self._thread, "is_inside", False):
                return function(*args, **keywords)
            self._thread.is_inside, start = True, time.thread_time()
            try:
                return function(*args, **keywords)
            finally:
                self._thread.is_inside = False
                self.seconds[phase] += time.thread_time() - start

        return timed


PHASES: Mapping[str, Sequence[PatchTarget]] = {
    "optimisation": (
        ("distributed.client", "collections_to_expr"),
        ("distributed.client", "Client.collections_to_dsk"),
        ("dask._expr", "Expr.optimize"),
    ),
    "serialisation": (("distributed.client", "serialize"), ("distributed.protocol", "serialize")),
}
"""Functions of each phase, by the names that they have in any supported release."""

UNPACKS: Sequence[PatchTarget] = (("distributed.protocol", "loads"),)
"""Makes values of the bytes of a message, in the thread of the client's event loop."""

HAS_CLOCKS = hasattr(time, "pthread_getcpuclockid")


def watch_client(client: Client) -> Callable[[], dict[str, float]]:
    """Begin to measure a client's CPU time by phase.

    The thread in which this is called is taken for the one that constructs graphs; its optimisation
    and serialisation are subtracted. The client sends in the thread of its event loop.

    Returns what ends it and returns seconds by phase, none for a client that is not running.
    """
    if client.status != "running" or not IN_BODYS_THREAD.get():
        return dict
    watch, standing = Stopwatch({**PHASES, RECEIVING: UNPACKS}), ExitStack()
    threads = {"construction": threading.get_ident(), "sending": client.sync(_thread)}
    clocks = {  # of CPU time; they can be read from any thread
        name: time.pthread_getcpuclockid(thread) for name, thread in threads.items() if HAS_CLOCKS
    }
    standing.enter_context(watch.on())
    before = _read(clocks)

    def end() -> dict[str, float]:
        after = _read(clocks)
        standing.close()
        spent = {name: after[name] - before[name] for name in before if name in after}
        timed = {name: watch.seconds[name] for name in PHASES}
        receiving = watch.seconds[RECEIVING]
        # Times of the stopwatch may be of other threads.
        within = {"construction": sum(timed.values()), "sending": receiving}
        left = {name: max(0.0, spent[name] - within[name]) for name in spent}
        return {**left, **timed, RECEIVING: receiving}

    return end


def watch_here() -> Callable[[], dict[str, float]]:
    """Time what can be told apart in the test's own process, where all run in the same threads."""
    watch, standing = Stopwatch(PHASES), ExitStack()
    standing.enter_context(watch.on())

    def end() -> dict[str, float]:
        standing.close()
        return {name: watch.seconds[name] for name in PHASES}

    return end


def _read(clocks: Mapping[str, int]) -> dict[str, float]:
    used = {}
    for name, clock in clocks.items():
        try:
            used[name] = time.clock_gettime(clock)
        except OSError:  # the thread has ended
            continue
    return used


async def _thread() -> int:
    return threading.get_ident()


WIDTH, BAR, LEFT = 900, 40, 10


def draw_bar(parts: Sequence[tuple[str, float]]) -> bytes:
    """Draw parts side by side, numbered, with a list of their amounts in microseconds below."""
    total = sum(amount for _, amount in parts) or 1.0
    x, end = Scale(total, WIDTH - 2 * LEFT, LEFT), 0.0
    drawn = [words(LEFT, ROW - 4, f"{_micro(total)} of CPU per task")]
    texts = [f"{label}: {_micro(amount)} ({amount / total:.0%})" for label, amount in parts]
    for number, (text, (_, amount)) in enumerate(zip(texts, parts, strict=True), start=1):
        left, width = x(end), x(end + amount) - x(end)
        end += amount
        colour = COLOURS[(number - 1) % len(COLOURS)]
        bar = box(left, ROW, width, BAR, fill=colour, stroke="white")
        middle = left + width / 2, ROW + BAR / 2 + 5
        name = words(*middle, f"{number}", fill="white", text_anchor="middle")
        drawn.append(element("g", bar, name if width > ROW else "", title=f"{number}  {text}"))
    drawn += legend(LEFT, ROW + BAR + ROW, texts)
    return as_file(WIDTH, 2 * ROW + BAR + ROW * (len(parts) + 1), drawn)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us"


UNSAMPLED = "no phases of the scheduler: they are shares, which no backend of the test measured"
TOO_FEW = (
    "no limit on phases of the scheduler is judged: they are shares of {} busy samples, "
    f"at least {MIN_SAMPLES} are needed"
)
SAME_THREADS = (
    "no construction and sending: in the test's own process the client has no threads of its own"
)
NO_WORKERS = (
    "no phases of workers: they came or left, compute nothing, or are in the test's own process"
)
NO_CLOCK = "no construction and sending: this system has no clocks for threads' CPU time"


class PhasesKind(
    Kind,
    name="phases",
    description="a computation's way, from submission to result",
    needs=[Need.CLIENT_PHASES, Need.WORKER_PHASES],
):
    """Sums up what the recorder measured of the client and what backends sampled."""

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        phases = phases_of(results)
        if phases is None:
            raise EvidenceUnavailableError("no backend saw the scheduler finish a task of the test")
        notes = [] if HAS_CLOCKS else [NO_CLOCK]
        notes += [] if phases.sampled_by else [UNSAMPLED]
        notes += [TOO_FEW.format(phases.samples)] if _is_too_few(phases) else []
        notes += [] if self.test.known_scheduler else [SAME_THREADS]
        notes += [] if any(phase.where == "workers" for phase in phases.phases) else [NO_WORKERS]
        files = {"phases.json": msgspec.json.encode(phases), "phases.svg": draw_bar(bar_of(phases))}
        return Brought(files, tuple(notes), list(_figures(phases)))


def _is_too_few(phases: Phases) -> bool:
    """Whether the scheduler's phases are shares of too few samples to be judged."""
    return bool(phases.sampled_by) and phases.samples < MIN_SAMPLES


def _figures(phases: Phases) -> Iterator[RunFigures]:
    """Yield what limits bound: the cost of each phase that is known well enough."""
    for phase in phases.phases:
        if phase.where != "scheduler" or not _is_too_few(phases):
            yield RunFigures("phase", phase.name, {TOGETHER: phase.cpu_seconds_per_task})
