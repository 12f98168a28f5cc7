"""The two context managers of scheduler-profiling, with its names and defaults.

This is the only place that knows the ancestor's arguments; the rest of the package knows options
of backends.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from distributed import Client

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.errors import RecordingError, SettingsError, together
from pytest_schedprof.measuring.profile import Attachment, Block
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.measuring.settings import read_call
from pytest_schedprof.store.run_directory import check_room, make_directory, write

logger = logging.getLogger(__name__)

Output = str | os.PathLike[str]
Names = str | Sequence[str]

PYSPY_FORMATS = ("speedscope", "raw", "flamegraph")

TRACES = {".html": "html", ".gz": "json.gz"}
"""Formats of a trace by the suffix of its path; json for every other suffix."""

UNPACK = "dask.highlevelgraph.HighLevelGraph.__dask_distributed_unpack__"

RENAMED: Mapping[str, str] = {
    "distributed.Scheduler.update_graph_hlg": "distributed.Scheduler.update_graph",
    "distributed.scheduler.Scheduler.update_graph_hlg": "distributed.Scheduler.update_graph",
    UNPACK: "distributed.scheduler._materialize_graph",
}
"""Functions of dask that the ancestor's documentation names, and what they are called today."""


def pyspy_on_scheduler(
    output: Output,
    format: str | None = None,
    rate: float = 100,
    subprocesses: bool = True,
    function: bool = False,
    gil: bool = False,
    threads: bool = False,
    idle: bool = True,
    nonblocking: bool = False,
    native: bool = False,
    extra_pyspy_args: Iterable[str] = (),
    log_level: str | None = None,
    client: Client | None = None,
    *,
    timeout: float = 30,
    **options: object,
) -> Block[Path]:
    """Profile the scheduler with py-spy while the body of a `with` or `async with` runs.

    Args:
        output: path of the file, on this machine. Missing directories are made.
        format: `speedscope`, `raw` (collapsed stacks) or `flamegraph`. By default it is
            speedscope, or a flame graph if the path ends in `.svg`.
        rate: samples per second.
        subprocesses: whether to sample child processes of the scheduler too.
        function: whether to report a function by its first line instead of the line that ran.
        gil: whether to keep only samples of threads that hold the GIL.
        threads: whether each stack begins with its thread.
        idle: whether to sample threads that are asleep too.
        nonblocking: whether to sample without pausing the scheduler; stacks can be torn.
        native: whether to collect the stacks of C extensions too.
        extra_pyspy_args: further arguments of `py-spy record`.
        log_level: level of py-spy's own log, such as `info`, which is then logged here.
        client: the client of the scheduler; by default the current one.
        timeout: seconds to wait for py-spy to start or stop.
        options: further options of the backend as in docs/backends.md.

    Raises:
        SettingsError: for an invalid argument.
    """
    chosen = format or ("flamegraph" if Path(output).suffix == ".svg" else "speedscope")
    if chosen not in PYSPY_FORMATS:
        raise SettingsError(
            f"schedprof: format must be one of {', '.join(PYSPY_FORMATS)}, got {format!r}"
        )
    of_backend = {
        "gil": gil,
        "idle": idle,
        "nonblocking": nonblocking,
        "native": native,
        "subprocesses": subprocesses,
        "functions": function,
        "extra": (*extra_pyspy_args, *(["--threads"] if threads else [])),
        "log_level": log_level or "",
        "formats": (chosen,),
        **options,
    }
    return _FileBlock(
        "pyspy_on_scheduler",
        "pyspy",
        output,
        client,
        timeout=timeout,
        rate=rate,
        options=of_backend,
    )


def viztrace_scheduler(
    output: Output,
    tracer_entries: int = 1_000_000,
    verbose: int = 1,
    max_stack_depth: int = -1,
    include_files: Sequence[str] | None = None,
    exclude_files: Sequence[str] | None = None,
    ignore_c_function: bool = False,
    ignore_frozen: bool = False,
    log_func_retval: bool = False,
    log_func_args: bool = False,
    log_print: bool = False,
    log_gc: bool = False,
    log_sparse: Names = (),
    trace_sparse: Names = (),
    log_async: bool = False,
    vdb: bool = False,
    file_info: bool = False,
    register_global: bool = True,
    plugins: Sequence[Any] | None = None,
    client: Client | None = None,
    *,
    timeout: float = 30,
    **options: object,
) -> Block[Path]:
    """Trace the scheduler with viztracer while the body of a `with` or `async with` runs.

    Args:
        output: path of the trace, on this machine; the suffix chooses between `.json`, `.json.gz`
            and viztracer's own page, `.html`. Missing directories are made.
        tracer_entries: events that the ring buffer holds.
        verbose: without effect: nothing is printed on the scheduler, and warnings are logged here.
        max_stack_depth: trace calls no deeper than this.
        include_files: trace only functions of files whose paths begin with one of these.
        exclude_files: do not trace functions of files whose paths begin with one of these.
        ignore_c_function: whether to leave out C functions.
        ignore_frozen: whether to leave out functions of frozen modules.
        log_func_retval: whether to keep what every call returned, as text.
        log_func_args: whether to keep the arguments of every call, as text.
        log_print: without effect, as `file_info`, `register_global`, `plugins` and `vdb`.
        log_gc: whether to show when the garbage collector ran.
        log_sparse: functions of which each run is one event, and nothing that they call.
        trace_sparse: functions to trace; nothing else is traced. Both can be given.
        log_async: whether to show each asyncio task on a line of its own.
        vdb: without effect.
        file_info: without effect.
        register_global: without effect.
        plugins: without effect.
        client: the client of the scheduler; by default the current one.
        timeout: seconds to wait for viztracer to start or stop.
        options: further options of the backend as in docs/backends.md, for example `min_duration`.

    Raises:
        SettingsError: for an invalid argument.
    """
    idle = {"vdb": vdb, "log_print": log_print, "file_info": file_info, "plugins": plugins}
    for name in (name for name, value in idle.items() if value):
        logger.warning("schedprof: %s has no effect any more", name)
    of_backend = {
        "ignore_c_function": ignore_c_function,
        "ignore_frozen": ignore_frozen,
        "log_func_retval": log_func_retval,
        "log_func_args": log_func_args,
        "log_gc": log_gc,
        "log_async": log_async,
        "format": TRACES.get(Path(output).suffix, "json"),
        "tracer_entries": tracer_entries,
        "max_stack_depth": max_stack_depth,
        "include_files": tuple(include_files or ()),
        "exclude_files": tuple(exclude_files or ()),
        "log_sparse": tuple(_present(log_sparse)),
        "trace_sparse": tuple(_present(trace_sparse)),
        **options,
    }
    return _FileBlock(
        "viztrace_scheduler", "viztracer", output, client, timeout=timeout, options=of_backend
    )


def _present(names: Names) -> Iterator[str]:
    """Yield what functions are called today; tell which of them had another name."""
    for name in [names] if isinstance(names, str) else names:
        if name in RENAMED:
            logger.warning(
                "schedprof: %s is called %s today, and that is used",
                name,
                RENAMED[name],
            )
        yield RENAMED.get(name, name)


class _FileBlock(Block[Path]):
    """Records with one backend and writes its file unchanged."""

    def __init__(
        self,
        source: str,
        backend: str,
        path: Output,
        client: Client | None,
        *,
        timeout: float,
        rate: float = 100,
        options: Mapping[str, object],
    ) -> None:
        """Make the backend; `source` is the function that was called, for messages."""
        super().__init__(client)
        settings = read_call(source, (), {}, rate=rate, timeout=timeout)
        self._backend = BackendRegistry().make(backend, rate_hz=settings.rate, options=options)
        self._path = Path(path).absolute()  # the body may change the working directory
        self._timeout_s = settings.timeout

    def begin(self, client: Client, opened: ExitStack) -> Path:
        """Start the profiler; raise before the body runs if it does not work."""
        make_directory(self._path.parent)
        check_room(self._path)
        cluster = Attachment(client, timeout_s=self._timeout_s)
        opened.callback(cluster.close)
        self._recorder = Recorder(
            cluster.control,
            [self._backend],
            self._timeout_s,
            death=cluster.death,
        )
        self._round = opened.enter_context(ExitStack())
        self._round.enter_context(self._recorder.round())
        self._raise_trouble()
        return self._path

    def end(self, *, failed: bool) -> None:
        """Write the file, even if the body failed."""
        self._round.close()
        self._raise_trouble()
        (segment,) = self._recorder.rounds[0]
        raw = segment.raw[self._backend.name]
        for text in raw.warnings:
            logger.warning("schedprof: %s", text)
        try:  # what the backend makes of its recording, such as viztracer's page, if anything
            page = next(iter(self._backend.extras(raw.content).values()), None)
        except Exception as error:
            trace = self._path.with_name(self._path.name + ".json")
            write(trace, raw.content)
            raise RecordingError(
                f"schedprof: {str(self._path)!r} could not be created ({error}); the recording "
                f"was written to {str(trace)!r}"
            ) from error
        write(self._path, page or raw.content)

    def _raise_trouble(self) -> None:
        if self._recorder.errors:
            raise together(self._recorder.errors)
