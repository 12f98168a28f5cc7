"""memray: memory of the scheduler at its peak, and what was never given back."""

from __future__ import annotations

import importlib.util
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pytest_schedprof.agent import memory as agent
from pytest_schedprof.backends.contract import ALL_TARGETS, Namer, Setting
from pytest_schedprof.backends.options import read_options
from pytest_schedprof.backends.remote import RemoteRecording, already_at_work
from pytest_schedprof.clusters.contract import Target
from pytest_schedprof.errors import BackendNotInstalledError, FormatError, RecordingError
from pytest_schedprof.model.profile import CostProfile, Function

if TYPE_CHECKING:
    from memray import AllocationRecord, FileReader

Place: TypeAlias = tuple[str, str, int]
"""File, name and line, as a namer takes them."""

PROOF: tuple[str, str] = (
    agent.memray_proof.__code__.co_filename,
    agent.memray_proof.__name__,
)
"""File and name of what the agent holds: no memory of the scheduler's."""


@dataclass(frozen=True, slots=True)
class MemrayOptions:
    """Options of the backend; each is one of memray's tracker."""

    native: bool = False
    """Show C and C++ functions in the flame graph too."""
    trace_python_allocators: bool = True
    """Count each object. Without it Python's allocator counts by what it takes from the system:
    a megabyte at a time, and nothing where a window before left it room, which is chance."""


class MemrayBackend:
    """Records with memray inside the scheduler."""

    name = "memray"
    suffix = "memray.bin"
    metrics = frozenset({"peak", "leaked"})
    drift = 0.0
    targets = ALL_TARGETS
    sees_threads = True
    disturbs = True

    def __init__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str] = ()
    ) -> None:
        self.options = read_options(MemrayOptions, self.name, options)

    @property
    def mode(self) -> str:
        """What changes the figures; `native` changes the picture alone."""
        return "" if self.options.trace_python_allocators else "trace_python_allocators=off"

    @property
    def settings(self) -> Mapping[str, Setting]:
        """All options."""
        return asdict(self.options)

    def start(self, target: Target, *, timeout_s: float) -> MemrayRecording:
        """Begin to track; refused where nobody could read what comes back."""
        if importlib.util.find_spec("memray") is None:
            raise BackendNotInstalledError(
                "schedprof: memray is not installed here, where the tests run, and its files "
                "cannot be read without it",
                f"here: {sys.executable} -m pip install memray",
            )
        flags = {
            "native_traces": self.options.native,
            "trace_python_allocators": self.options.trace_python_allocators,
        }
        answer = target.call(agent.start, flags, target.client_id, timeout_s=timeout_s)
        if "problem" in answer:
            _refuse(answer, target.label)
        return MemrayRecording(target, answer["token"], self.name)

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Bytes at the peak and at the end: of the whole, and of the functions that took them."""
        with opened(content) as reader:
            records = {
                "peak": reader.get_high_watermark_allocation_records(merge_threads=True),
                "leaked": reader.get_leaked_allocation_records(merge_threads=True),
            }
            amounts = {metric: allocated(each) for metric, each in records.items()}
        amounts = {metric: without_proof(each, len(content)) for metric, each in amounts.items()}
        whole = {metric: float(by_place.total()) for metric, by_place in amounts.items()}
        return CostProfile(self.name, self.mode, by_function(amounts, namer), whole)

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        """The flame graph of the peak."""
        return {"memray.html": draw(content)}


class MemrayRecording(RemoteRecording):
    """A memray at work on one scheduler."""

    def verify(self, content: bytes) -> None:
        """What the agent held as long as it was at work must be among the others."""
        if PROOF[1].encode() not in content:
            raise RecordingError(
                "schedprof: memray's file does not hold the allocation that proved it was at "
                "work; its profile is not to be trusted"
            )


@contextmanager
def opened(content: bytes) -> Iterator[FileReader]:
    """memray's reader, which reads nothing but files with a name."""
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


def allocated(records: Iterable[AllocationRecord]) -> Counter[Place]:
    """Bytes by the line that asked for them."""
    amounts: Counter[Place] = Counter()
    for record in records:
        # A thread that runs no Python has no stack: its bytes belong to the whole alone.
        name, file, line = (record.stack_trace(max_stacks=1) or [("", "", 0)])[0]
        amounts[file, name, line] += record.size
    return amounts


def without_proof(amounts: Counter[Place], size: int) -> Counter[Place]:
    """What the scheduler itself asked for. memray says nothing of a file that ends too early."""
    rest = Counter({place: amount for place, amount in amounts.items() if place[:2] != PROOF})
    if len(rest) == len(amounts):
        raise FormatError(
            "schedprof: not a whole file of memray: the allocation that proved it at work is not "
            f"in it ({size} bytes)"
        )
    return rest


def by_function(
    amounts: Mapping[str, Counter[Place]], namer: Namer
) -> dict[Function, dict[str, float]]:
    """The same by function and metric."""
    places = sorted({place for by_place in amounts.values() for place in by_place if place[1]})
    functions: dict[Function, dict[str, float]] = {}
    for place, name in zip(places, namer(places), strict=True):
        mine = functions.setdefault(name, dict.fromkeys(amounts, 0.0))
        for metric, by_place in amounts.items():
            mine[metric] += by_place[place]
    return functions


def draw(content: bytes) -> bytes:
    """memray's own flame graph of the peak, as `memray flamegraph` makes it."""
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


def _refuse(answer: Mapping[str, Any], label: str) -> NoReturn:
    """Say why memray cannot work there, and what to do."""
    if answer["problem"] == "not-installed":
        raise BackendNotInstalledError(
            f"schedprof: memray is not installed where {label} runs",
            f"there: {answer['executable']} -m pip install memray",
        )
    reason = "one process has room for one tracker or profiler only: stop the other first"
    raise already_at_work("memray", label, reason)
