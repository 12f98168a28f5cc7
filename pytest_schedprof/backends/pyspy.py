"""py-spy: samples by the wall clock, from a process beside the scheduler."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.agent import guard as guard_program
from pytest_schedprof.agent import pyspy as agent
from pytest_schedprof.backends.contract import Backend, RawProfile, Target
from pytest_schedprof.backends.remote import RemoteRecording
from pytest_schedprof.backends.sampling import (
    RECORDED,
    SamplingBackend,
    is_forbidden,
    not_permitted,
)
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    RecordingError,
    SchedprofError,
    SettingsError,
)
from pytest_schedprof.formats.speedscope import holds_frame, without_process
from pytest_schedprof.model.backend import SPEEDSCOPE, Artifact

MAX_ERROR_SHARE = 0.5
"""Fraction of failed samples above which a profile is refused."""

NOTED_ERROR_SHARE = 0.05
"""Fraction of failed samples above which a profile has a warning."""

_ERROR = re.compile(r"error:|reason:|\d+: (?!.*::)|thread .* panicked", re.IGNORECASE)
_NOISE = re.compile(r"Visit https:|Press Control-C")
_COUNTS = re.compile(r"Samples: (\d+) Errors: (\d+)")
_BEHIND = re.compile(r"([\d.]+)s behind in sampling")


def quality(log: str) -> list[str]:
    """Return warnings from py-spy's log; raise RecordingError if too many samples failed."""
    warnings = []
    if counts := _COUNTS.search(log):
        samples, errors = map(int, counts.groups())
        if errors > MAX_ERROR_SHARE * (samples + errors):
            raise RecordingError(
                f"schedprof: py-spy failed at {errors} of {samples + errors} samples; its profile "
                "is not to be trusted: lower the rate, or leave out nonblocking"
            )
        if errors > NOTED_ERROR_SHARE * (samples + errors):
            warnings.append(f"py-spy failed at {errors} of {samples + errors} samples")
    return warnings


def kept_hz(rate_hz: float, answer: Mapping[str, Any]) -> float:
    """Return the samples per second that py-spy kept up with, at least one.

    When it last told how late it was, it had taken the samples that were due so long before. Nor
    can it have sampled a busy thread more often than it has samples for the thread's CPU time: that
    is the better bound at rates far above.
    """
    late_at: float = max(answer["late_at"], 1e-3)
    cpu: float = max(answer["cpu"], 1e-3)
    counts = _COUNTS.search(answer["log"])
    samples = int(counts[1]) if counts else 0
    on_time = 1 - behind(answer["log"]) / late_at
    return max(1.0, min(rate_hz * on_time, samples / cpu))


def behind(log: str) -> float:
    """Return the largest delay in seconds that py-spy reported, or 0."""
    return max(map(float, _BEHIND.findall(log)), default=0.0)


def reason(log: str) -> str:
    """Return the lines of py-spy's log that say what went wrong and why."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not _NOISE.search(line)]
    errors = [line for line in lines if _ERROR.match(line)]
    return "; ".join(dict.fromkeys(errors)) or " ".join(lines[-1:])


logger = logging.getLogger(__name__)

MAX_BEHIND = 0.1
"""Fraction of the window by which samples may be late; py-spy reports a second and more."""

MODES = ("native", "gil", "idle", "nonblocking", "subprocesses")
"""Flags that change what a sample means."""


class PySpyOptions(Struct, frozen=True):
    """Options of py-spy itself; each is a flag of `py-spy record`."""

    native: bool = False
    """Collect the stacks of C extensions too."""
    gil: bool = False
    """Only samples of threads that hold the GIL."""
    idle: bool = False
    """Sample threads that are asleep too."""
    nonblocking: bool = False
    """Do not pause the scheduler while it is sampled: cheaper, with torn stacks."""
    subprocesses: bool = False
    """Sample child processes of the scheduler too."""
    functions: bool = False
    """Report a function by its first line instead of the line that ran."""
    extra: tuple[str, ...] = ()
    """Further arguments, passed on unchanged."""
    formats: tuple[str, ...] = (RECORDED,)
    """Artifacts to make of the recording."""
    log_level: str = ""
    """Level of py-spy's own log, such as `info`; it is then logged here."""

    def arguments(self) -> list[str]:
        """Return the command-line flags that are set."""
        flags = [f"--{name}" for name in MODES if getattr(self, name)]
        return [*flags, *(["--function"] if self.functions else []), *self.extra]


class PySpyRecording(RemoteRecording):
    """A py-spy recording of one scheduler."""

    def __init__(self, target: Target, answer: Mapping[str, Any], backend: Backend) -> None:
        super().__init__(target, answer, backend)
        self._watchdog = answer["watchdog"]

    def stop(self, *, timeout_s: float) -> RawProfile:
        """Leave out the watchdog, which py-spy takes for one of the scheduler's own children."""
        raw = super().stop(timeout_s=timeout_s)
        if not self._backend.options.subprocesses:
            return raw
        return replace(raw, content=without_process(raw.content, self._watchdog))

    def check(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        if self._backend.options.log_level:
            logger.warning("schedprof: py-spy's log:\n%s", answer["log"])
        if answer["forced"]:
            raise RecordingError(f"schedprof: {answer['forced']}; its profile is lost")
        if answer["early"]:
            raise RecordingError(
                "schedprof: py-spy ended before the window did, with exit status "
                f"{answer['status']}, so its profile is not of the whole: "
                f"{reason(answer['log'])!r}"
            )
        if answer["status"] != 0 or not answer["size"]:
            raise RecordingError(
                f"schedprof: py-spy exited with {answer['status']} and left {answer['size']} "
                f"bytes: {reason(answer['log'])!r}"
            )
        late = [self._lateness(answer)] if behind(answer["log"]) else []
        return (*quality(answer["log"]), *late)

    def doubt(self, answer: Mapping[str, Any]) -> str:
        if behind(answer["log"]) <= MAX_BEHIND * answer["seconds"]:
            return ""
        return f"{self._lateness(answer)} (the window: {answer['seconds']:.1f} s)"

    def _lateness(self, answer: Mapping[str, Any]) -> str:
        """Say how late it was, what rate it keeps up with, and what to do."""
        rate_hz = self._backend.rate_hz
        hz = kept_hz(rate_hz, answer)
        other = "" if self._backend.options.nonblocking else ", or try pyspy.nonblocking=true"
        return (
            f"py-spy fell {behind(answer['log']):g} s behind: of {rate_hz:g} samples per "
            f"second it keeps up with about {hz:.0f} here; set {_rate(hz)}{other}"
        )

    def verify(self, content: bytes) -> None:
        if not holds_frame(content, agent.beacon.__name__, agent.beacon.__code__.co_filename):
            raise RecordingError(
                "schedprof: py-spy's file does not hold the sample that proved it was at work; "
                "its profile is not to be trusted: try a higher --schedprof-rate"
            )


class PySpyBackend(SamplingBackend):
    """Records with py-spy as a descendant of the scheduler."""

    name = "pyspy"
    rank = 60
    artifacts = (Artifact("pyspy.speedscope.json", SPEEDSCOPE),)
    options_type = PySpyOptions
    drift = 0.1
    """Measured: benchmarks/coverage.py; the reasons are in docs/statistics.md."""

    sees_threads = True
    needs = ("py-spy",)
    module = agent
    recording = PySpyRecording
    busy = "one process can be traced by one py-spy only: stop the other first"

    def prepare(self) -> None:
        super().prepare()
        if self.rate_hz < 1:
            raise SettingsError(
                f"schedprof: pyspy takes at least one sample per second, got rate {self.rate_hz:g}"
            )
        self.rate_hz = float(round(self.rate_hz))  # py-spy takes no other numbers

    @property
    def mode(self) -> str:
        return ",".join([*(n for n in MODES if getattr(self.options, n)), *self.options.extra])

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        options = self.options
        return (
            inspect.getsource(guard_program),
            ["--format", "speedscope", "--rate", f"{self.rate_hz:.0f}", *options.arguments()],
            options.log_level,
            1 / self.rate_hz,
            options.gil,
            options.nonblocking,
            timeout_s,
            target.client_id,
        )

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        label = target.label
        if answer["problem"] == "not-installed":
            return BackendNotInstalledError(
                f"schedprof: py-spy is not installed where {label} runs",
                f"there: {answer['executable']} -m pip install py-spy",
            )
        log = answer["log"]
        if answer["problem"] == "not-started":
            return RecordingError(
                f"schedprof: py-spy could not be started where {label} runs: {log}"
            )
        if is_forbidden(log, answer["status"]):
            return not_permitted("py-spy", target, reason(log))
        status = answer["status"]
        if answer["early"]:
            return RecordingError(
                f"schedprof: py-spy ended at once with exit status {status}: {reason(log)!r}"
            )
        return RecordingError(
            f"schedprof: py-spy took no sample within {timeout_s:g} s: {reason(log)!r}"
        )


def _rate(hz: float) -> str:
    """Return how to set a rate; a marker's goes before the command line's."""
    return f"rate={hz:.0f} in the marker if that sets the rate, else --schedprof-rate={hz:.0f}"
