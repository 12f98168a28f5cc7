"""viztracer in the scheduler's process: of all functions, or around and of those that are named."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import mmap
import pkgutil
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from typing import Any

from pytest_schedprof.agent.recordings import Recording, begin, under_way

BEGIN, END = "schedprof: begin", "schedprof: end"
"""Marks in the trace: it was recorded from the first to the last, on the thread of both."""

TRACERS = "_schedprof_tracers"
"""Attribute of the module viztracer that holds its tracers, by the size of their buffers."""

FLUSH = "flush_as_finish"
"""Calls that have not returned when recording ends are kept with the time they took so far."""

Step = Callable[[Callable[[], Any]], Any]


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
        self.uncalled: set[str] = set()
        self.undo = ExitStack()
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

    def patch(self, name: str, scheduler: Any, *, logged: bool) -> None:
        """Let all calls of a function go through a step, also where the scheduler refers to it."""
        owner, attribute = find_owner(name)
        found = inspect.getattr_static(owner, attribute)
        function = function_in(found)
        step = partial(self.log, event_name(function)) if logged else self.trace
        wrapper = self.wrapped(name, function, step)
        is_own = attribute in vars(owner)
        setattr(owner, attribute, wrapper if found is function else type(found)(wrapper))
        put_back = (setattr, owner, attribute, found) if is_own else (delattr, owner, attribute)
        self.undo.callback(*put_back)
        for table, key, value in references(scheduler, function):
            target = getattr(value, "__self__", None)
            table[key] = wrapper if value is function else types.MethodType(wrapper, target)
            self.undo.callback(table.__setitem__, key, value)
        self.uncalled.add(name)

    def wrapped(self, name: str, function: Any, step: Step) -> Any:
        """The function, each run of which goes through the step; a coroutine's between awaits."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.uncalled.discard(name)
            result = step(partial(function, *args, **kwargs))
            return in_steps(result, step) if inspect.iscoroutine(result) else result

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            self.uncalled.discard(name)
            return await in_steps(function(*args, **kwargs), step)

        return coroutine if inspect.iscoroutinefunction(function) else call

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
        return {"displaced": self.was_displaced, "uncalled": sorted(self.uncalled)}

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


async def in_steps(coroutine: Any, step: Step) -> Any:
    """A coroutine in the place of another, that goes its way in steps."""
    return await steps(coroutine, step)


@types.coroutine
def steps(coroutine: Any, step: Step) -> Generator[Any, Any, Any]:
    """Drive a coroutine, each stretch between two awaits through a step.

    `partial`, for a method of C called as such would be traced with the function.
    """
    call = partial(coroutine.send, None)
    while True:
        try:
            awaited = step(call)
        except StopIteration as stop:
            return stop.value
        try:
            call = partial(coroutine.send, (yield awaited))
        except BaseException as error:  # a cancellation too is for the coroutine
            call = partial(coroutine.throw, error)


def find_owner(name: str) -> tuple[Any, str]:
    """What holds the named function, and under which attribute; as unittest.mock.patch does."""
    path, _, attribute = name.replace(":", ".").rpartition(".")
    return pkgutil.resolve_name(path), attribute


def function_in(found: Any) -> Any:
    """The function that an attribute holds, bare or as a static or class method."""
    function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    is_lazy = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if not callable(function) or isinstance(function, type) or is_lazy:
        raise TypeError("it is no function or coroutine function")
    return function


def references(scheduler: Any, function: Any) -> list[tuple[dict[Any, Any], Any, Any]]:
    """Where the scheduler keeps the function beside its name, mostly as a bound method."""
    tables = [scheduler.handlers, scheduler.stream_handlers, scheduler._TRANSITIONS_TABLE]
    tables += [vars(callback) for callback in scheduler.periodic_callbacks.values()]
    return [
        (table, key, value)
        for table in tables
        for key, value in table.items()
        if getattr(value, "__func__", value) is function
    ]


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
            recording.patch(name, scheduler, logged=name in logged)
        except Exception as error:  # an import that a name leads to may raise anything
            reason = f"{type(error).__name__}: {error}{similar(name)}"
            return {"problem": "no-function", "name": name, "log": reason}
    return {}


def similar(name: str) -> str:
    """What is there under nearly that name, for one that another version of the code had."""
    try:
        owner, attribute = find_owner(name)
    except Exception:
        return ""
    close = difflib.get_close_matches(attribute, dir(owner), n=1)
    return f"; did you mean {close[0]!r}?" if close and close[0] != attribute else ""
