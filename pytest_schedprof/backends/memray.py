"""memray: the scheduler's memory at its peak, and what was not freed."""

from __future__ import annotations

import importlib.util
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pytest_schedprof.agent import memory as agent
from pytest_schedprof.backends.contract import Recording, Target
from pytest_schedprof.backends.remote import RemoteBackend, RemoteRecording
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    FormatError,
    RecordingError,
    SchedprofError,
)
from pytest_schedprof.model.backend import Artifact, FileKind
from pytest_schedprof.model.profile import CodeLocation, CostProfile, Function, Namer

if TYPE_CHECKING:
    from memray import AllocationRecord, FileReader

RECORDED = FileKind("memray", "memray flamegraph FILE")

PROOF: tuple[str, str] = (
    agent.memray_proof.__code__.co_filename,
    agent.memray_proof.__name__,
)
"""File and name of the agent's own allocation, which is not the scheduler's memory."""


class MemrayOptions(Struct, frozen=True):
    """Options of the backend; each is an option of memray's tracker."""

    native: bool = False
    """Show C and C++ functions in the flame graph too."""
    trace_python_allocators: bool = True
    """Count each object. Without it, Python's allocator is counted by what it takes from the
    system: a megabyte at a time, and nothing if an earlier window happened to leave it room."""


class MemrayRecording(RemoteRecording):
    """A memray recording of one scheduler."""

    def verify(self, content: bytes) -> None:
        if PROOF[1].encode() not in content:
            raise RecordingError(
                "schedprof: memray's file does not hold the allocation that proved it was at "
                "work; its profile is not to be trusted"
            )


class MemrayBackend(RemoteBackend):
    """Records with memray inside the scheduler."""

    name = "memray"
    rank = 50
    artifacts = (Artifact("memray.bin", RECORDED),)
    options_type = MemrayOptions
    measures = frozenset({"peak", "leaked"})
    sees_threads = True
    disturbs = True
    needs = ("memray",)
    module = agent
    recording = MemrayRecording
    busy = "one process has room for one tracker or profiler only: stop the other first"

    @property
    def mode(self) -> str:
        """Options that change the figures; `native` changes only the flame graph."""
        return "" if self.options.trace_python_allocators else "trace_python_allocators=off"

    def start(self, target: Target, *, timeout_s: float) -> Recording:
        """Begin to track; refused without memray here, because it must read the file."""
        if importlib.util.find_spec("memray") is None:
            raise BackendNotInstalledError(
                "schedprof: memray is not installed here, where the tests run, and its files "
                "cannot be read without it",
                f"here: {sys.executable} -m pip install memray",
            )
        return super().start(target, timeout_s=timeout_s)

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        flags = {
            "native_traces": self.options.native,
            "trace_python_allocators": self.options.trace_python_allocators,
        }
        return (flags, target.client_id)

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        return BackendNotInstalledError(
            f"schedprof: memray is not installed where {target.label} runs",
            f"there: {answer['executable']} -m pip install memray",
        )

    @classmethod
    def warm_up(cls) -> None:
        """Track nothing: the first tracker of a process opens a pipe and never closes it."""
        if importlib.util.find_spec("memray") is not None:
            agent.track_nothing()

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        with opened(content) as reader:
            records = {
                "peak": reader.get_high_watermark_allocation_records(merge_threads=True),
                "leaked": reader.get_leaked_allocation_records(merge_threads=True),
            }
            amounts = {metric: allocated(of_metric) for metric, of_metric in records.items()}
        size = len(content)
        amounts = {metric: without_proof(by_place, size) for metric, by_place in amounts.items()}
        whole = {metric: float(by_place.total()) for metric, by_place in amounts.items()}
        return CostProfile(self.name, self.mode, by_function(amounts, namer), whole)

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        return {"memray.html": draw(content)}


@contextmanager
def opened(content: bytes) -> Iterator[FileReader]:
    """Open a recording with memray's reader, which needs a named file."""
    import memray

    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(content)
        file.flush()
        try:
            with memray.FileReader(file.name) as reader:
                yield reader
        except OSError as error:
            raise FormatError(
                f"schedprof: not a file that memray {version('memray')} can read: {error} "
                f"({len(content)} bytes)"
            ) from error


def allocated(records: Iterable[AllocationRecord]) -> Counter[CodeLocation]:
    """Sum the bytes by the line that allocated them."""
    amounts: Counter[CodeLocation] = Counter()
    for record in records:
        # A thread that runs no Python has no stack: its bytes are only part of the total.
        name, file, line = (record.stack_trace(max_stacks=1) or [("", "", 0)])[0]
        amounts[file, name, line] += record.size
    return amounts


def without_proof(amounts: Counter[CodeLocation], size: int) -> Counter[CodeLocation]:
    """Remove the agent's own allocation; if it is missing, the file is truncated.

    memray itself reports no error for a truncated file.
    """
    rest = Counter({place: amount for place, amount in amounts.items() if place[:2] != PROOF})
    if len(rest) == len(amounts):
        raise FormatError(
            "schedprof: not a whole file of memray: the allocation that proved it at work is not "
            f"in it ({size} bytes)"
        )
    return rest


def by_function(
    amounts: Mapping[str, Counter[CodeLocation]], namer: Namer
) -> dict[Function, dict[str, float]]:
    """Sum the bytes by function and metric."""
    places = sorted({place for by_place in amounts.values() for place in by_place if place[1]})
    functions: dict[Function, dict[str, float]] = {}
    for place, name in zip(places, namer(places), strict=True):
        mine = functions.setdefault(name, dict.fromkeys(amounts, 0.0))
        for metric, by_place in amounts.items():
            mine[metric] += by_place[place]
    return functions


def draw(content: bytes) -> bytes:
    """Draw memray's own flame graph of the peak, as `memray flamegraph` does."""
    from memray.reporters.flamegraph import FlameGraphReporter

    with opened(content) as reader:
        reporter = FlameGraphReporter.from_snapshot(
            reader.get_high_watermark_allocation_records(merge_threads=True),
            memory_records=tuple(reader.get_memory_snapshots()),
            native_traces=reader.metadata.has_native_traces,
        )
        page = io.StringIO()
        reporter.render(
            outfile=page,
            metadata=reader.metadata,
            show_memory_leaks=False,
            merge_threads=True,
            inverted=False,
        )
    return page.getvalue().encode()
