"""Times how long each callback of the scheduler's event loop occupies the loop.

By the CPU time of the loop's thread, so that a neighbour on the machine cannot make it longer, and
by the clock beside it. Pauses of the garbage collector are told apart.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import math
import threading
from asyncio import events
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from time import perf_counter, thread_time  # virtual clusters replace neither
from types import CodeType
from typing import Any

from . import names
from .decisions import world_of
from .patches import in_steps, wrap
from .recordings import Recording, as_json, begin, under_way

OWN = b"pytest_schedprof"
"""Part of every call of the agent. Callbacks that call it are left out."""

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}

STEPS = 50
"""Buckets of durations, for each factor of e: each is 2 % wide."""

LONG_S = 5e-4
"""A callback that took less by the clock was not kept from the processor for longer than that, so
the clock stands for its CPU time, and it is not named. Reading the CPU clock is a system call."""

MICRO = 1e6

MOST = 1000
"""Collections within one callback that are looked at."""

CALLING = "run_function"
"""The message by which clients, and the agent's session, run functions on the scheduler."""

Call = Callable[[], Any]


class Stalls:
    """Durations of callbacks on one thread."""

    def __init__(self, is_virtual: bool) -> None:
        self.thread = threading.get_ident()
        self.is_virtual = is_virtual
        self.short = [0] * (int(LONG_S * MICRO) + 1)
        """Number of short callbacks by their duration in microseconds."""
        self.long: Counter[int] = Counter()
        self.longest: dict[CodeType | None, tuple[float, float]] = {}
        """CPU time and wall time of the longest callbacks, by what they ran."""
        self.wall = 0.0
        """The longest by the clock, whatever it ran."""
        self.read_at = self.cpu_then = self.since = 0.0
        """When the CPU clock was read, what it said, and the time of callbacks since then."""
        self.pauses: list[tuple[float, float]] = []
        """When a collection began, and the CPU time of it."""
        self.pausing = (0.0, 0.0)
        self.handler: tuple[float, float, CodeType | None] = (0.0, 0.0, None)
        """The handler of messages, or what is called by the clock, that took long last: when it
        began and how long it took."""
        self.last: tuple[float, CodeType | None] = (0.0, None)
        """The handler that was called last, and when."""
        self.undo = ExitStack()
        self.own_at = 0.0
        """When the agent was called last."""

    def begin(self) -> None:
        """Time every callback from the next one on."""
        wrap(events.Handle, "_run", self._timed, self.undo)
        gc.callbacks.append(self.collect)

    def _timed(self, real: Callable[..., None]) -> Callable[..., None]:
        """Return what runs a callback, and times it; it is fast for short ones."""
        stalls, short, thread, ident = self, self.short, self.thread, threading.get_ident
        is_virtual = self.is_virtual

        def _run(self: Any) -> None:
            if ident() != thread:
                real(self)
                return
            callback, start = self._callback, perf_counter()  # gone if it cancels itself
            if start - stalls.read_at > LONG_S:
                stalls.read(start)
            real(self)
            took = perf_counter() - start
            if took >= LONG_S:
                stalls.note(callback, start, took)
            else:
                stalls.since += took
                if stalls.pauses and stalls.pauses[-1][0] >= start:
                    took = max(0.0, took - stalls.paused_since(start))
                if not (is_virtual and is_hollow(code_of(callback))):
                    short[int(took * MICRO)] += 1

        return _run

    def end(self) -> None:
        self.undo.close()
        if self.collect in gc.callbacks:
            gc.callbacks.remove(self.collect)

    def read(self, clock: float) -> None:
        """Read the CPU clock, from which the CPU time of the next long callback is counted.

        It is read at most LONG_S before that; what others took since then is known.
        """
        self.read_at, self.cpu_then, self.since = clock, thread_time(), 0.0

    def note(self, callback: Any, start: float, wall: float) -> None:
        """Add a long callback that has ended."""
        cpu = thread_time() - self.cpu_then - self.since
        cpu = max(0.0, cpu - self.paused_since(start))
        cpu = min(cpu, wall)  # the loop's own work since the CPU clock was read is in it
        self.read(perf_counter())
        moment, took, code = self.handler
        if moment < start or took < wall / 2:
            moment, code = self.last  # one of a batch of messages, most of which are alike
        if moment < start:
            code = code_of(callback)
        if self.own_at >= start or (self.is_virtual and is_hollow(code)):
            return
        self.wall = max(self.wall, wall)
        self.long[round(math.log(cpu or 1 / MICRO) * STEPS)] += 1
        most_cpu, most_wall = self.longest.get(code, (0.0, 0.0))
        self.longest[code] = max(cpu, most_cpu), max(wall, most_wall)

    def collect(self, phase: str, facts: dict[str, Any]) -> None:
        """Time a collection; the collector calls this before and after."""
        if threading.get_ident() != self.thread:
            return
        if phase == "start":
            self.pausing = perf_counter(), thread_time()
        elif self.pausing[0]:
            moment, cpu = self.pausing
            self.pauses.append((moment, thread_time() - cpu))
            self.pausing = (0.0, 0.0)

    def paused_since(self, start: float) -> float:
        """Return the CPU time of the collections since the start of a callback."""
        return sum(took for moment, took in self.pauses[-MOST:] if moment >= start)

    def of(self, handler: Any) -> Any:
        """Return a handler of messages that is timed within the callback that calls it."""
        code, stalls = code_of(handler), self

        def step(call: Call) -> Any:
            start = perf_counter()
            stalls.last = start, code
            try:
                return call()
            finally:
                if (took := perf_counter() - start) > LONG_S / 2:
                    stalls.handled(start, took, code)

        if inspect.iscoroutinefunction(handler):

            @functools.wraps(handler)
            async def handle_later(*args: Any, **keywords: Any) -> Any:
                return await in_steps(handler(*args, **keywords), step)

            return handle_later

        @functools.wraps(handler)
        def handle(*args: Any, **keywords: Any) -> Any:
            return step(functools.partial(handler, *args, **keywords))

        return handle

    def handled(self, start: float, took: float, code: CodeType | None) -> None:
        """Note the handler that took the longest lately."""
        moment, longest, _ = self.handler
        if took >= longest or moment + longest < start - LONG_S:
            self.handler = start, took, code

    def of_calls(self, handler: Any) -> Any:
        """Return the handler of calls of functions, which notes those of the agent."""

        @functools.wraps(handler)
        def handle(*args: Any, **keywords: Any) -> Any:
            function = keywords.get("function")
            if isinstance(function, bytes) and OWN in function:
                self.own_at = perf_counter()
            return handler(*args, **keywords)

        return handle

    def record(self) -> dict[str, Any]:
        """Return everything, with names."""
        known = [(code, *times) for code, times in self.longest.items() if code is not None]
        codes = [code for code, _, _ in known]
        named = names.name_places(
            [(code.co_filename, code.co_qualname, code.co_firstlineno) for code in codes]
        )
        longest: dict[str, dict[str, float]] = {}
        for name, (_, cpu, wall) in zip(named, known, strict=True):
            most = longest.get(name, {"cpu": 0.0, "wall": 0.0})
            longest[name] = {"cpu": max(cpu, most["cpu"]), "wall": max(wall, most["wall"])}
        durations = self._durations()
        return {
            "schedprof_stalls": 1,
            "callbacks": sum(count for _, count in durations),
            "cpu": sum(duration * count for duration, count in durations),
            "longest": self._longest_of_all(),
            "longest_wall": self.wall,
            "percentiles": {name: self._percentile(part) for name, part in PERCENTILES.items()},
            "functions": longest,
            "pauses": len(self.pauses),
            "paused": sum(took for _, took in self.pauses),
            "longest_pause": max((took for _, took in self.pauses), default=0.0),
        }

    def _longest_of_all(self) -> float:
        """Return the CPU time of the longest callback.

        It may be a short one: those that took long by the clock may have waited for a processor.
        """
        short = max((n for n, count in enumerate(self.short) if count), default=-0.5) + 0.5
        return max([short / MICRO, *(cpu for cpu, _ in self.longest.values())])

    def _durations(self) -> list[tuple[float, int]]:
        """Return how many callbacks took how long, the shortest first."""
        short = [((n + 0.5) / MICRO, count) for n, count in enumerate(self.short) if count]
        long = [(math.exp(bucket / STEPS), count) for bucket, count in self.long.items()]
        return sorted([*short, *long])

    def _percentile(self, part: float) -> float:
        """Return the duration that this part of all callbacks does not exceed.

        The middle of a bucket may be above the longest of all.
        """
        durations = self._durations()
        left = part * sum(count for _, count in durations)
        for duration, count in durations:
            left -= count
            if left <= 0:
                return min(duration, self._longest_of_all())
        return 0.0


def is_hollow(code: CodeType | None) -> bool:
    """Whether code is of hollow workers, or of the cluster in virtual time."""
    return code is not None and "/pytest_schedprof/" in code.co_filename.replace("\\", "/")


def code_of(callback: Any) -> CodeType | None:
    """Return the code that a callback of the loop runs; of a task, that of its coroutine."""
    for _ in range(8):  # what wraps what: handles of Tornado, partials
        owner = getattr(callback, "__self__", None)
        if isinstance(owner, asyncio.Task):
            coroutine: Any = owner.get_coro()
            return getattr(coroutine, "cr_code", getattr(coroutine, "gi_code", None))
        if not isinstance(callback, functools.partial):
            break
        is_runner = getattr(callback.func, "__name__", "") == "_run_callback"
        callback = callback.args[0] if is_runner and callback.args else callback.func
    function = inspect.unwrap(getattr(callback, "__func__", callback))
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


class StallsRecording(Recording):
    """The timing of one window."""

    kind = "stalls"

    def __init__(self, client: str, scheduler: Any) -> None:
        super().__init__(client)
        self.calls, self.messages = scheduler.handlers, scheduler.stream_handlers
        self.periodic = list(scheduler.periodic_callbacks.values())
        self.stalls = Stalls(world_of(scheduler) is not None)

    def begin(self) -> None:
        """Wrap handlers and callbacks."""
        stalls = self.stalls
        for table in (self.calls, self.messages):
            for name in list(table):
                wrap(table, name, stalls.of, stalls.undo)
        wrap(self.calls, CALLING, stalls.of_calls, stalls.undo)
        for periodic in self.periodic:
            wrap(periodic, "callback", stalls.of, stalls.undo)
        stalls.begin()

    async def end(self, timeout: float) -> dict[str, Any]:
        self.stalls.end()
        self.content = as_json(self.stalls.record())
        return {}


async def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to time; return a `token` or a `problem`."""
    if StallsRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    if not hasattr(dask_scheduler, "stream_handlers"):  # the test's own process
        return {"problem": "shared"}
    loop = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.base_events.BaseEventLoop):
        return {"problem": "other-loop", "loop": type(loop).__module__.partition(".")[0]}
    recording = StallsRecording(client, dask_scheduler)
    recording.begin()
    return begin(dask_scheduler, recording)
