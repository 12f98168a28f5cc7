"""Runs viztracer in the scheduler's process, for all functions or for named ones."""

from __future__ import annotations

import importlib
import inspect
import mmap
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from .patches import Patches, Step, similar
from .recordings import Recording, begin, path_of, under_way, unnamed_file

BEGIN, END = "schedprof: begin", "schedprof: end"
"""Marks at both ends of the trace, on the thread that is recorded."""

TRACERS = "_schedprof_tracers"
"""Attribute of the module viztracer that keeps tracers by the size of their buffers."""

FLUSH = "flush_as_finish"
"""Option by which calls that have not returned are kept with the time they took so far."""


HIDES_RESUMPTIONS = sys.version_info[:2] == (3, 11)
"""Python 3.11 reports no call when a coroutine goes on because the one that it awaits returned
after an error was thrown into it, as at every closed connection. It does report the return."""

RESUMABLE = (1, 1, 1)
"""First release of viztracer that warns of such a return. Older ones raise an error from it, in the
code that is traced."""


class Resumption:
    """Filter of warnings that goes on with a trace which viztracer ended for an unexpected return.

    viztracer says so by a warning, and nothing else can be told of it in time.
    """

    message = "VizTracer: Unexpected function return"

    def __init__(self, resume: Callable[[], None]) -> None:
        self.resume = resume

    def match(self, text: str) -> bool:
        """Resume if this is the warning; a filter calls it as it calls a regular expression."""
        is_meant = text.startswith(self.message)
        if is_meant:
            self.resume()
        return is_meant

    def begin(self) -> Callable[[], None]:
        """Put the filter first and return a function that takes it out."""
        entry: Any = ("ignore", self, RuntimeWarning, None, 0)
        warnings.filters.insert(0, entry)  # type: ignore[attr-defined]
        changed: Callable[[], None] = warnings._filters_mutated  # type: ignore[attr-defined]
        changed()

        def end() -> None:
            if entry in warnings.filters:  # else the test has put back other filters
                warnings.filters.remove(entry)  # type: ignore[attr-defined]
                changed()

        return end


def hook_is_taken() -> bool:
    """Whether a profiler is at work in this thread, or, since Python 3.12, in this process."""
    monitoring = getattr(sys, "monitoring", None)
    tool = monitoring and monitoring.get_tool(monitoring.PROFILER_ID)
    return sys.getprofile() is not None or tool is not None


def holder_of_hook() -> tuple[Callable[[], Any], bool]:
    """Return a function that tells who holds the hook, and whether as an object or as a name.

    Uses `partial`, because a C function that is called directly would be in the trace.
    """
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return partial(sys.getprofile), True
    return partial(monitoring.get_tool, monitoring.PROFILER_ID), False


def too_old() -> str:
    """Return viztracer's version if it would raise errors in the traced code, else ""."""
    version: str = importlib.import_module("viztracer").__version__
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return version if HIDES_RESUMPTIONS and numbers < RESUMABLE else ""


def tracer_with(entries: int) -> Any:
    """Return the tracer whose buffer has this many entries, the same one each time.

    Each tracer takes one of the process's 1024 keys of thread-local storage for good; a tracer that
    finds none left ends the process.
    """
    viztracer = importlib.import_module("viztracer")
    tracers = viztracer.__dict__.setdefault(TRACERS, {})
    if entries not in tracers:
        of_threads = threading.getprofile()
        tracers[entries] = viztracer.VizTracer(entries, verbose=0, register_global=False)
        # Before Python 3.12 creating one already hooks it into this thread and all new threads,
        # from which it could not be removed.
        sys.setprofile(None)
        threading.setprofile(of_threads)
    return tracers[entries]


class VizTracerRecording(Recording):
    """A tracer at work: all the time, or while a patched function runs."""

    kind = "viztracer"

    def __init__(self, client: str, tracer: Any) -> None:
        super().__init__(client)
        self.tracer = tracer
        # viztracer's own `start` and `stop` are Python functions, which would be in the trace.
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
        """Set the tracer up, make the first mark, and start to trace if `at_once`."""
        # This discards calls left from a recording that another profiler interrupted.
        self.hook()
        self.unhook(None)
        self.tracer.clear()
        for name, value in options.items():
            setattr(self.tracer, name, value)
        self.tracer.enable = True  # for log_gc; viztracer's own `start` would set it
        self.undo.callback(setattr, self.tracer, "enable", False)
        self.undo.callback(setattr, self.tracer, "log_gc", False)
        if HIDES_RESUMPTIONS:
            self.undo.callback(Resumption(self.resume).begin())
        if at_once:
            self.hook()
            self.is_tracing = True
        self.mark(BEGIN)

    def resume(self) -> None:
        """Go on after an unexpected return: calls under way end here for the trace."""
        if self.is_tracing and self.holder() == self.own:
            self.unhook(FLUSH)
            self.hook()

    def mark(self, name: str) -> None:
        """Add an instant event to the trace; the tracer takes it only while it traces."""
        if self.is_tracing:
            self.tracer.add_instant(name)
        else:
            self.trace(partial(self.tracer.add_instant, name))

    def log_step(self, function: Any) -> Step:
        return partial(self.log, event_name(function))

    def trace_step(self, function: Any) -> Step:
        """Return a step that traces what happens in a function.

        On another thread, to which the scheduler offloads some work, it logs the run instead.
        """
        name = event_name(function)

        def step(call: Callable[[], Any]) -> Any:
            is_own = threading.get_ident() == self.thread
            return self.trace(call) if is_own else self.log(name, call)

        return step

    def trace(self, call: Callable[[], Any]) -> Any:
        """Trace one call; wrapped in C to stay out of the trace.

        Not if tracing is on, or another profiler has the hook.
        """
        if self.is_tracing or self.is_over or threading.get_ident() != self.thread:
            return call()
        self.was_displaced = self.was_displaced or hook_is_taken()
        if self.was_displaced:
            return call()
        self.hook()
        self.is_tracing = True
        try:
            return call()
        finally:
            if self.is_tracing:  # else the recording ended during the call
                if self.holder() == self.own:
                    self.unhook(None)
                else:
                    self.was_displaced = True
                self.is_tracing = False

    def log(self, name: str, call: Callable[[], Any]) -> Any:
        """Run a call and add one event for it, and none for what happens in it.

        A call that is traced has an event already.
        """
        if self.is_tracing and threading.get_ident() == self.thread:
            return call()
        since = self.tracer.getts()
        try:
            return call()
        finally:
            if not self.is_over:
                event = {"ph": "X", "cat": "fee", "name": name, "ts": since}
                self.tracer.add_raw({**event, "dur": self.tracer.getts() - since})

    def finish(self) -> None:
        """Make the last mark, release the hook and remove all patches."""
        if self.is_tracing and self.holder() != self.own:
            self.was_displaced = True  # and the hook is another profiler's
        else:
            self.mark(END)
            if self.is_tracing:
                self.unhook(FLUSH)
        self.is_tracing, self.is_over = False, True
        self.undo.close()

    async def end(self, timeout: float) -> dict[str, Any]:
        """Write the trace, which blocks the loop for about a second per million events."""
        self.finish()
        # The file has no name, so a scheduler that dies while it is written leaves none.
        descriptor = unnamed_file()
        try:
            self.tracer.dump(path_of(descriptor))
            if os.fstat(descriptor).st_size:  # nothing was written to a full disk
                self.trace_file = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        return {"displaced": self.was_displaced, "uncalled": sorted(self.patches.uncalled)}

    def size(self) -> int:
        return 0 if self.trace_file is None else len(self.trace_file)

    def piece(self, offset: int, length: int) -> bytes:
        return b"" if self.trace_file is None else self.trace_file[offset : offset + length]

    def remove(self) -> None:
        super().remove()
        if not self.is_over:
            self.finish()
        if self.trace_file is not None:
            self.trace_file.close()


def event_name(function: Any) -> str:
    """Return the name that viztracer gives a function's events."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    if code is None:
        module = getattr(inner, "__module__", None) or "builtins"
        return f"{module}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


async def start(
    client: str,
    entries: int,
    options: dict[str, Any],
    traced: list[str],
    logged: list[str],
    dask_scheduler: Any = None,
) -> dict[str, Any]:
    """Start a recording; return a `token`, or a `problem` and facts about it."""
    if "viztracer" in under_way(dask_scheduler) or hook_is_taken():
        return {"problem": "busy"}
    try:
        if version := too_old():
            return {"problem": "too-old", "version": version, "executable": sys.executable}
        tracer = tracer_with(entries)
    except ImportError:
        has_wheel = sys.version_info < (3, 15)
        return {"problem": "not-installed", "executable": sys.executable, "has_wheel": has_wheel}
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
    """Patch every named function; return the problem of the first that cannot be patched."""
    for name in (*traced, *logged):
        try:
            step = recording.log_step if name in logged else recording.trace_step
            recording.patches.add(name, scheduler, step)
        except Exception as error:  # an import that a name leads to may raise anything
            reason = f"{type(error).__name__}: {error}{similar(name)}"
            return {"problem": "no-function", "name": name, "log": reason}
    return {}
