"""tachyon: the sampler of Python 3.15 (`profiling.sampling`), in a child of the scheduler."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pytest_schedprof.agent import sampler as program
from pytest_schedprof.agent import tachyon as agent
from pytest_schedprof.backends.contract import Target
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
from pytest_schedprof.model.backend import SPEEDSCOPE, Artifact
from pytest_schedprof.model.options import check_choice

MODES = ("cpu", "wall", "gil", "exception")
TASKS = ("", "running", "all")
MOST_HZ = 10_000
"""Most samples per second: one takes about 50 us."""

MAX_ERRORS, NOTED_ERRORS = 0.5, 0.05
"""Part of the samples that failed, above which a profile is refused, and has a warning."""

MAX_MISSED, NOTED_MISSED = 0.1, 0.02
"""Part of the samples that were missed, above which no limit is judged, and there is a warning."""

MAX_BEHIND = 0.1
"""Part of the window by which a sample may be late: it shows a later moment."""


class TachyonOptions(Struct, frozen=True):
    """Options of the sampler itself."""

    mode: str = "cpu"
    """When a thread is sampled: on the CPU, always, while it holds the GIL, or in an exception."""
    tasks: str = ""
    """Stacks of tasks and of what awaits them, of those that run or of all; only in mode `wall`."""
    native: bool = False
    """Show calls of C code as a frame `<native>`."""
    gc: bool = True
    """Show the garbage collector as a frame `<GC>`."""
    formats: tuple[str, ...] = (RECORDED,)
    """Artifacts to make of the recording."""


class TachyonRecording(RemoteRecording):
    """A recording of one process."""

    def check(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        if answer["forced"]:
            raise RecordingError(f"schedprof: {answer['forced']}; its profile is lost")
        if answer["early"] or answer["status"] != 0:
            moment = "before the window did, " if answer["early"] else ""
            raise RecordingError(
                f"schedprof: tachyon ended {moment}with exit status {answer['status']}, so its "
                f"profile is not of the whole: {_last_line(answer['log'])!r}"
            )
        return tuple(_warnings(_quality(answer["log"])))

    def doubt(self, answer: Mapping[str, Any]) -> str:
        quality = _quality(answer["log"])
        if quality["missed"] > MAX_MISSED:
            return f"tachyon missed {quality['missed']:.0%} of its samples: lower the rate"
        if quality["behind_s"] > MAX_BEHIND * answer["seconds"]:
            return (
                f"tachyon fell {quality['behind_s']:.2g} s behind in a window of "
                f"{answer['seconds']:.1f} s: lower the rate"
            )
        return ""


class TachyonBackend(SamplingBackend):
    """Records with tachyon in a child of the scheduler, which is never stopped for it."""

    name = "tachyon"
    rank = None  # most schedulers run older versions of Python
    artifacts = (Artifact("tachyon.speedscope.json", SPEEDSCOPE),)
    options_type = TachyonOptions
    drift = 0.1
    """As that of pyspy, beside which benchmarks/backends.py measures it."""

    sees_threads = True
    module = agent
    recording = TachyonRecording

    def prepare(self) -> None:
        super().prepare()
        if not 1 <= self.rate_hz <= MOST_HZ:
            raise SettingsError(
                f"schedprof: tachyon takes 1 to {MOST_HZ} samples per second, got rate "
                f"{self.rate_hz:g}"
            )
        check_choice("tachyon.mode", self.options.mode, MODES)
        check_choice("tachyon.tasks", self.options.tasks, TASKS)
        if self.options.tasks and self.options.mode != "wall":
            raise SettingsError(
                "schedprof: option tachyon.tasks needs tachyon.mode=wall, got mode "
                f"{self.options.mode!r}"
            )

    @property
    def mode(self) -> str:
        flags = {
            self.options.mode: self.options.mode != "cpu",
            f"tasks={self.options.tasks}": bool(self.options.tasks),
            "native": self.options.native,
            "no gc": not self.options.gc,
        }
        return ",".join(name for name, is_set in flags.items() if is_set)

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        source = inspect.getsource(program)
        return (source, json.dumps(self.settings), timeout_s, target.client_id)

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        if answer["problem"] == "old":
            return refusal(answer["python"], target.label)
        status, line = answer["status"], _last_line(answer["log"])
        if is_forbidden(answer["log"], status or 0):
            return not_permitted("tachyon", target, line)
        if answer["early"]:
            return RecordingError(
                f"schedprof: tachyon ended at once with exit status {status}: {line!r}"
            )
        return RecordingError(
            f"schedprof: tachyon did not see the scheduler within {timeout_s:g} s: {line!r}"
        )


def _quality(log: str) -> Mapping[str, float]:
    """Return the figures that the program wrote last."""
    (line,) = [text for text in log.splitlines() if text.startswith(program.QUALITY)][-1:] or [""]
    if not line:
        raise RecordingError(
            f"schedprof: tachyon left no figures of its samples: {_last_line(log)!r}"
        )
    figures: Mapping[str, float] = json.loads(line.removeprefix(program.QUALITY))
    return figures


def _warnings(quality: Mapping[str, float]) -> list[str]:
    """Return warnings; raise RecordingError if too many samples failed."""
    errors, samples, missed = quality["errors"], quality["samples"], quality["missed"]
    if errors > MAX_ERRORS * samples:
        raise RecordingError(
            f"schedprof: tachyon failed at {errors} of {samples} samples; its profile is not to be "
            "trusted: lower the rate"
        )
    warnings = []
    if errors > NOTED_ERRORS * samples:
        warnings.append(f"tachyon failed at {errors} of {samples} samples")
    if missed > NOTED_MISSED:
        warnings.append(f"tachyon missed {missed:.0%} of its samples; lower the rate")
    return warnings


def refusal(python: str, label: str) -> BackendNotInstalledError:
    """Return the error for a process that runs this older version of Python."""
    return BackendNotInstalledError(
        "schedprof: tachyon comes with Python 3.15 and newer (profiling.sampling), and "
        f"{label} runs Python {python}",
        "use pyspy, or cputime, which measure the same shares",
    )


def _last_line(log: str) -> str:
    return next((line for line in reversed(log.splitlines()) if line.strip()), "")
