"""cputime: samples by the CPU clock, from within the scheduler, without any privilege."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pytest_schedprof.agent import cputime as agent
from pytest_schedprof.backends.contract import Target
from pytest_schedprof.backends.remote import RemoteRecording
from pytest_schedprof.backends.sampling import RECORDED, SamplingBackend
from pytest_schedprof.errors import BackendUnavailableError, RecordingError, SchedprofError
from pytest_schedprof.formats.speedscope import holds_frame, name_frames, read_speedscope
from pytest_schedprof.model.backend import SPEEDSCOPE, Artifact, Machine
from pytest_schedprof.model.profile import Namer, SampleProfile

NOTED_MERGED = 0.2
"""Fraction of ticks merged with others above which a result has a warning."""

SLOW = 0.75
"""Fraction of the requested rate below which a result has a warning."""

LIMITED_BY_TICK = (
    "without the counters of perf, cputime takes at most as many samples a second of CPU time"
)

THREAD_BIAS = (
    "the event loop is not in the main thread, so a thread beside it took the samples: it sees "
    "too often the places where the interpreter's lock is given up; do not compare with others"
)


class CpuTimeOptions(Struct, frozen=True):
    formats: tuple[str, ...] = (RECORDED,)
    """Artifacts to make of the recording."""


class CpuTimeRecording(RemoteRecording):
    """A cputime recording of one scheduler."""

    def check(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        warnings = [THREAD_BIAS] if answer["mode"] == "thread" else []
        rate_hz = self._backend.rate_hz
        if answer["achieved_hz"] < SLOW * rate_hz:
            warnings.append(
                f"asked for {rate_hz:g} samples per second of CPU time, the system's clock "
                f"gives {answer['achieved_hz']:.0f}{answer['remedy']}"
            )
        merged = answer["ticks"] - answer["samples"]
        if merged > NOTED_MERGED * answer["ticks"]:
            warnings.append(
                f"{merged} of {answer['ticks']} ticks came together with others, held back by "
                "calls of C code; they are counted where these calls were made"
            )
        return tuple(warnings)

    def verify(self, content: bytes) -> None:
        if not holds_frame(content, agent.beacon.__name__, agent.beacon.__code__.co_filename):
            raise RecordingError(
                "schedprof: the cputime file does not hold the sample that proved it was at "
                "work; its profile is not to be trusted"
            )


class CpuTimeBackend(SamplingBackend):
    """Samples the event loop's thread; each sample has the CPU time since the one before."""

    name = "cputime"
    rank = 10
    artifacts = (Artifact("cputime.speedscope.json", SPEEDSCOPE),)
    options_type = CpuTimeOptions
    measures = frozenset({"share", "self", "cpu"})
    drift = 0.05
    """Measured: benchmarks/coverage.py; the reasons are in docs/statistics.md."""
    sees_threads = False
    module = agent
    recording = CpuTimeRecording
    busy = "its process has one timer for CPU time: stop the other profiler first"

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        return (1 / self.rate_hz, timeout_s, target.client_id)

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        label = target.label
        if answer["problem"] == "unsafe":
            return BackendUnavailableError(
                f"schedprof: cputime cannot sample {label}: its event loop is not in the "
                f"main thread, and Python {answer['python']} may crash when another thread looks "
                "at it; run it in a process of its own, as `dask scheduler` does, or use pyspy"
            )
        if answer["problem"] == "no-clock":
            return BackendUnavailableError(
                f"schedprof: cputime cannot sample {label}: its event loop is not in the main "
                "thread, and macOS does not tell the CPU time of another thread; run it in a "
                "process of its own, as `dask scheduler` does, or use pyspy"
            )
        if answer["problem"] == "not-main":
            return RecordingError(
                f"schedprof: cputime observes {label} from its main thread only, and the window "
                "was opened in another: use pyspy"
            )
        return RecordingError(
            f"schedprof: cputime took no sample of {label} within {timeout_s:g} s; "
            "its system delivers no SIGPROF"
        )

    def read(self, content: bytes, namer: Namer) -> SampleProfile:
        file = read_speedscope(content)
        mode = file.name.partition(" ")[2]  # it is `cputime` or `cputime thread`
        return name_frames(
            file, namer, backend=self.name, mode=mode, is_held_back=not mode, is_of_cpu=True
        )

    @classmethod
    def notes(cls, scheduler: Machine, *, is_main_thread: bool) -> Mapping[str, str]:
        way = "cputime samples by a timer"
        if not is_main_thread:
            way = "cputime samples from a thread beside it, with a bias"
            if scheduler.python.startswith("3.11."):
                way = "cputime does not work on Python 3.11 then"
        notes = {"event loop": way}
        if scheduler.tick_hz:
            notes["kernel tick"] = LIMITED_BY_TICK
        return notes
