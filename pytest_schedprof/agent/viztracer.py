"""viztracer in the scheduler's process: of all functions, or around and of those that are named."""

from __future__ import annotations

import importlib
import inspect
import mmap
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from .patches import Patches, Step, similar
from .recordings import Recording, begin, under_way

BEGIN, END = "schedprof: begin", "schedprof: end"
"""Marks in the trace: it was recorded from the first to the last, on the thread of both."""

TRACERS = "_schedprof_tracers"
"""Attribute of the module viztracer that holds its tracers, by the size of their buffers."""

FLUSH = "flush_as_finish"
"""Calls that have not returned when recording ends are kept with the time they took so far."""


def hook_is_taken() -> bool:
    """Whether a profiler is at work in this thread, or, since Python 3.12, in this process."""
    monitoring = getattr(sys, "monitoring", None)
    tool = monitoring and monitoring.get_tool(monitoring.PROFILER_ID)
    return sys.getprofile() is not None or tool is not None


def holder_of_hook() -> tuple[Callable[[], Any], bool]:
    """What tells who holds the hook, and whether it tells the object itself or a name.

    `partial`, for a function of C called as such would be traced.
    """
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return partial(sys.getprofile), True
    return partial(monitoring.get_tool, monitoring.PROFILER_ID), False


def tracer_with(entries: int) -> Any:
    """A tracer with a buffer of so many entries, the same one each time.

    Each tracer takes one of the process's 1024 keys of thread-local storage and never gives it
    back; the one that finds none left ends the process.
    """
    viztracer = importlib.import_module("viztracer")
    tracers = viztracer.__dict__.setdefault(TRACERS, {})
    if entries not in tracers:
        of_threads = threading.getprofile()
        tracers[entries] = viztracer.VizTracer(entries, verbose=0, register_global=False)
        # Before Python 3.12 making one already hooks it into this thread and all new ones,
        # and those could never be rid of it.
        sys.setprofile(None)
        threading.setprofile(of_threads)
    return tracers[entries]


class VizTracerRecording(Recording):
    """One tracer at work: all the time, or while a function that is patched for it runs."""

    kind = "viztracer"

    def __init__(self, client: str, tracer: Any) -> None:
        super().__init__(client)
        self.tracer = tracer
        # viztracer's own `start` and `stop` are functions of Python, which would be traced.
        base = importlib.import_module("viztracer.snaptrace").Tracer
        self.hook: Callable[[], None] = base.start.__get__(tracer)
        self.unhook: Callable[[str | None], None] = base.stop.__get__(tracer)
        self.holder, is_object = holder_of_hook()
        self.own = tracer if is_object else "viztracer"
        self.thread = threading.get_ident()
        self.is_tracing = self.is_over = self.was_displaced = False
        self.undo = ExitStack()
        self.patches = Patches(self.undo)
        self.trace_file: mmap.mmap | None = None

    def begin(self, options: dict[str, Any], *, at_once: bool) -> None:
        """Set the tracer up, leave the first mark, and go on tracing if it is to be at once."""
        # Stopping forgets the calls of a recording that another profiler broke off.
        self.hook()
        self.unhook(None)
        self.tracer.clear()
        for name, value in options.items():
            setattr(self.tracer, name, value)
        self.tracer.enable = True  # for log_gc; viztracer's own `start` would set it
        self.undo.callback(setattr, self.tracer, "enable", False)
        self.undo.callback(setattr, self.tracer, "log_gc", False)
        if at_once:
            self.hook()
            self.is_tracing = True
        self.mark(BEGIN)

    def mark(self, name: str) -> None:
        """An instant in the trace; the tracer takes it only while it traces."""
        if self.is_tracing:
            self.tracer.add_instant(name)
        else:
            self.trace(partial(self.tracer.add_instant, name))

    def log_step(self, function: Any) -> Step:
        """Logs each run of a function."""
        return partial(self.log, event_name(function))

    def trace_step(self, function: Any) -> Step:
        """Traces what happens in it."""
        return self.trace

    def trace(self, call: Callable[[], Any]) -> Any:
        """A step: trace all that happens in it. No function of Python stands between."""
        if not self.may_trace():
            return call()
        self.hook()
        self.is_tracing = True
        try:
            return call()
        finally:
            if self.is_tracing:  # else the recording ended within
                if self.holder() == self.own:
                    self.unhook(None)
                else:
                    self.was_displaced = True
                self.is_tracing = False

    def may_trace(self) -> bool:
        """Not twice at once, and not in the place of another profiler."""
        if self.is_tracing or self.is_over or threading.get_ident() != self.thread:
            return False
        self.was_displaced = self.was_displaced or hook_is_taken()
        return not self.was_displaced

    def log(self, name: str, call: Callable[[], Any]) -> Any:
        """A step: one event for it and none for what happens in it."""
        since = self.tracer.getts()
        try:
            return call()
        finally:
            if not self.is_over:
                event = {"ph": "X", "cat": "fee", "name": name, "ts": since}
                self.tracer.add_raw({**event, "dur": self.tracer.getts() - since})

    def finish(self) -> None:
        """Leave the last mark, give back the hook and take all patches away."""
        if self.is_tracing and self.holder() != self.own:
            self.was_displaced = True  # and the hook is not ours to take away
        else:
            self.mark(END)
            if self.is_tracing:
                self.unhook(FLUSH)
        self.is_tracing, self.is_over = False, True
        self.undo.close()

    async def end(self, timeout: float) -> dict[str, Any]:
        """Write the trace: about a second for a million events, in which the loop stands still."""
        self.finish()
        # The file is gone as soon as it is mapped, so a scheduler that dies leaves none.
        with tempfile.NamedTemporaryFile(prefix="schedprof-") as file:
            self.tracer.dump(file.name)
            self.trace_file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return {"displaced": self.was_displaced, "uncalled": sorted(self.patches.uncalled)}

    def size(self) -> int:
        """Of the trace."""
        return 0 if self.trace_file is None else len(self.trace_file)

    def piece(self, offset: int, length: int) -> bytes:
        """A part of the trace."""
        return b"" if self.trace_file is None else self.trace_file[offset : offset + length]

    def remove(self) -> None:
        """Also of a recording that did not come to begin."""
        super().remove()
        if not self.is_over:
            self.finish()
        if self.trace_file is not None:
            self.trace_file.close()


def event_name(function: Any) -> str:
    """As viztracer names it."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    if code is None:
        module = getattr(inner, "__module__", None) or "builtins"
        return f"{module}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"
    name = getattr(code, "co_qualname", code.co_name)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


async def start(
    client: str,
    entries: int,
    options: dict[str, Any],
    traced: list[str],
    logged: list[str],
    dask_scheduler: Any = None,
) -> dict[str, Any]:
    """Start a recording; the answer holds a `token`, or a `problem` and what it needs to tell."""
    if "viztracer" in under_way(dask_scheduler) or hook_is_taken():
        return {"problem": "busy"}
    try:
        tracer = tracer_with(entries)
    except ImportError:
        return {"problem": "not-installed", "executable": sys.executable}
    recording = VizTracerRecording(client, tracer)
    try:
        if problem := patch_all(recording, dask_scheduler, traced, logged):
            recording.remove()
            return problem
        recording.begin(options, at_once=not (traced or logged))
    except BaseException:
        recording.remove()
        raise
    return begin(dask_scheduler, recording)


def patch_all(
    recording: VizTracerRecording, scheduler: Any, traced: list[str], logged: list[str]
) -> dict[str, str]:
    """Patch every named function; the problem with the first that cannot be."""
    for name in (*traced, *logged):
        try:
            step = recording.log_step if name in logged else recording.trace_step
            recording.patches.add(name, scheduler, step)
        except Exception as error:  # an import that a name leads to may raise anything
            reason = f"{type(error).__name__}: {error}{similar(name)}"
            return {"problem": "no-function", "name": name, "log": reason}
    return {}
