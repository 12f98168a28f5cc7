"""viztracer: when each function ran and for how long, as a trace."""

from __future__ import annotations

import gzip
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from pytest_schedprof.agent import viztracer as agent
from pytest_schedprof.backends.contract import RawProfile, Recording, Setting, Target
from pytest_schedprof.backends.remote import RemoteBackend, RemoteRecording
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    RecordingError,
    SchedprofError,
    SettingsError,
)
from pytest_schedprof.formats.chrometrace import mended, read_trace, unpacked
from pytest_schedprof.model.backend import TRACE, Artifact
from pytest_schedprof.model.options import check_above_zero, check_choice, plain
from pytest_schedprof.model.profile import CostProfile, Namer

PAGE_S = 120.0
COMPRESSION = 3
"""Level of gzip. A higher one takes seconds for each test and saves little."""

SUFFIXES = {"json": "json", "json.gz": "json.gz", "html": "json"}
"""Ending of the artifact by format; for `html` the page is made of the trace and kept too."""


class VizTracerOptions(Struct, frozen=True):
    """Options of the backend, and of viztracer itself."""

    format: str = "json.gz"
    """`json.gz`, `json`, or `html` for viztracer's page beside the trace."""
    trace_sparse: tuple[str, ...] = ()
    """Trace only while one of these functions runs."""
    log_sparse: tuple[str, ...] = ()
    """Log only these functions, and nothing that they call."""
    tracer_entries: int = 1_000_000
    """Events that the ring buffer holds."""
    max_stack_depth: int = -1
    """Trace calls no deeper than this."""
    min_duration: float = 0.0
    """Leave out calls that took fewer microseconds."""
    include_files: tuple[str, ...] = ()
    """Trace only functions of files whose paths begin with one of these."""
    exclude_files: tuple[str, ...] = ()
    """Do not trace functions of files whose paths begin with one of these."""
    ignore_c_function: bool = False
    """Leave out C functions."""
    ignore_frozen: bool = False
    """Leave out functions of frozen modules."""
    log_async: bool = False
    """Show each asyncio task on a line of its own."""
    log_gc: bool = False
    """Show when the garbage collector ran."""
    log_func_args: bool = False
    """Keep the arguments of every call, as text."""
    log_func_retval: bool = False
    """Keep what every call returned, as text."""

    def of_tracer(self) -> dict[str, Setting]:
        """Return the options that are attributes of a tracer."""
        own = {"format", "trace_sparse", "log_sparse", "tracer_entries"}
        return {name: value for name, value in plain(self).items() if name not in own}


class VizTracerRecording(RemoteRecording):
    """A viztracer recording of one scheduler."""

    def check(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        if answer["displaced"]:
            raise RecordingError(
                "schedprof: another profiler took viztracer's place on the scheduler; "
                "the trace is incomplete: use one at a time"
            )
        return tuple(
            f"viztracer: {name} was not called in the window; if it should have been, another "
            "module may hold it under a name of its own: give that name"
            for name in answer["uncalled"]
        )

    def verify(self, content: bytes) -> None:
        began = _is_overflowed(content) or agent.BEGIN.encode() in content
        if not began or content.rfind(agent.END.encode()) < 0:
            raise RecordingError(
                "schedprof: viztracer's trace does not hold the marks that prove it was at work "
                "from the beginning to the end; see the scheduler's log for its warnings"
            )

    def stop(self, *, timeout_s: float) -> RawProfile:
        raw = super().stop(timeout_s=timeout_s)
        warnings, content = raw.warnings, mended(raw.content)
        if _is_overflowed(content):
            warnings += (_overflow(self._backend.options.tracer_entries),)
        if self._backend.options.format == "json.gz":
            content = gzip.compress(content, COMPRESSION, mtime=0)
        return RawProfile(content, warnings)


class VizTracerBackend(RemoteBackend):
    """Records with viztracer, which must be installed where the scheduler runs."""

    name = "viztracer"
    rank = 40
    artifacts = (Artifact("viztracer.json", TRACE), Artifact("viztracer.json.gz", TRACE))
    options_type = VizTracerOptions
    measures = frozenset({"seconds"})
    """Not calls, because filters, sparse tracing and a full buffer leave some out."""
    sees_threads = False
    disturbs = True
    needs = ("viztracer",)
    module = agent
    recording = VizTracerRecording
    busy = "one thread has room for one profiler only: stop the other first"
    sparing: ClassVar[Mapping[str, object]] = {"tracer_entries": 10_000}
    """A small buffer: the scheduler keeps it, and 100 MB is too much to leave behind."""

    def prepare(self) -> None:
        options = self.options
        check_choice("viztracer.format", options.format, list(SUFFIXES))
        check_above_zero("viztracer.tracer_entries", options.tracer_entries)
        if options.include_files and options.exclude_files:
            raise SettingsError(
                "schedprof: options viztracer.include_files and viztracer.exclude_files exclude "
                "each other: give one of them"
            )

    def start(self, target: Target, *, timeout_s: float) -> Recording:
        """Begin to trace; refused without viztracer here, if it is to make the page."""
        if self.options.format == "html" and importlib.util.find_spec("viztracer") is None:
            raise BackendNotInstalledError(
                "schedprof: viztracer is not installed here, where the tests run, and its page "
                "(viztracer.format=html) cannot be made without it",
                f"here: {sys.executable} -m pip install viztracer",
            )
        return super().start(target, timeout_s=timeout_s)

    def suffix(self, content: bytes) -> str:
        return f"viztracer.{SUFFIXES[self.options.format]}"

    @property
    def mode(self) -> str:
        calm = {"format", "tracer_entries"}
        defaults = asdict(VizTracerOptions())
        changed = (
            f"{name}={_text(value)}"
            for name, value in asdict(self.options).items()
            if name not in calm and value != defaults[name]
        )
        return ",".join(changed)

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        options = self.options
        traced = list(options.trace_sparse)
        logged = [name for name in options.log_sparse if name not in traced]  # a trace shows more
        entries, of_tracer = options.tracer_entries, options.of_tracer()
        return (target.client_id, entries, of_tracer, traced, logged)

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        label = target.label
        if answer["problem"] == "not-installed":
            return BackendNotInstalledError(
                f"schedprof: viztracer is not installed where {label} runs",
                f"there: {answer['executable']} -m pip install viztracer",
                *(() if answer["has_wheel"] else (COMPILER,)),
            )
        if answer["problem"] == "too-old":
            return BackendNotInstalledError(
                f"schedprof: viztracer {answer['version']} raises errors in the code that it "
                f"traces on Python 3.11, which reports returns without calls; {label} needs 1.1.1 "
                "or newer",
                f"there: {answer['executable']} -m pip install 'viztracer>=1.1.1'",
            )
        return RecordingError(
            f"schedprof: viztracer cannot patch {answer['name']!r} on {label} "
            f"({answer['log']}); give the dotted name of a function where it is looked up, as for "
            "unittest.mock.patch"
        )

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        functions, has_overflowed = read_trace(unpacked(content), namer)
        doubt = _overflow(self.options.tracer_entries) if has_overflowed else ""
        # Most options of the mode leave some functions out.
        hides = self.mode and f"it is not in the trace, from which {self.mode} may have left it out"
        return CostProfile(self.name, self.mode, functions, doubt=doubt, hides=hides)

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        return {"viztracer.html": _page(content)} if self.options.format == "html" else {}


def _is_overflowed(content: bytes) -> bool:
    """Whether the buffer overflowed, as viztracer notes at the end of the file."""
    return b'"overflow":true' in content[-200:]


def _overflow(entries: int) -> str:
    return (
        f"viztracer's buffer overflowed: the trace holds the last {entries} entries and lacks the "
        "beginning; raise viztracer.tracer_entries, narrow the window with measure(), or trace "
        "less with viztracer.trace_sparse"
    )


def _text(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value).lower()


COMPILER = (
    "viztracer 1.1.1 has no wheel for Python 3.15, so this takes a C compiler and Python's headers "
    "there; cprofile measures seconds without"
)


def _page(content: bytes) -> bytes:
    """Make viztracer's page in a subprocess, so that viztracer is not imported here."""
    with tempfile.TemporaryDirectory(prefix="schedprof-") as directory:
        trace, page = Path(directory, "trace.json"), Path(directory, "trace.html")
        trace.write_bytes(content)
        command = [sys.executable, "-m", "viztracer", "--combine", str(trace), "-o", str(page)]
        subprocess.run(command, capture_output=True, check=True, timeout=PAGE_S)
        return page.read_bytes()
