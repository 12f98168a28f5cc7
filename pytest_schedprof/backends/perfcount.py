"""perfcount: instructions per task, by a counter of the processor, at no cost."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import msgspec

from pytest_schedprof.agent import perfcount as agent
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.remote import RemoteBackend
from pytest_schedprof.control.control import Target
from pytest_schedprof.errors import (
    BackendNotPermittedError,
    BackendUnavailableError,
    SchedprofError,
)
from pytest_schedprof.formats import read_json
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.metric import INSTRUCTIONS
from pytest_schedprof.model.profile import CostProfile, Namer


class PerfcountFile(msgspec.Struct, frozen=True):
    """What a counter of the processor counted in one recording."""

    schedprof_perfcount: int
    """Version of the format."""
    instructions: int
    enabled_ns: int
    """For how long it was to count."""
    running_ns: int
    """For how long it did: others may use the processor's counters, too."""

    @property
    def is_complete(self) -> bool:
        """Whether it counted all the time."""
        return self.running_ns == self.enabled_ns

    @property
    def missing(self) -> float:
        """Part of the time in which it did not count."""
        return 1 - self.running_ns / self.enabled_ns if self.enabled_ns else 0.0


INSTEAD = "callgrind counts without one"
FORBIDS = 2
"""Values of perf_event_paranoid above this keep users from counting their own processes."""

TAKEN = "others took the processor's counter for {:.0%} of the time: end programs that use perf"


class PerfcountBackend(RemoteBackend):
    """Counts the instructions of the event loop's thread as a whole."""

    name = "perfcount"
    rank = None
    artifacts = (Artifact("perfcount.json", JSON),)
    measures = frozenset({INSTRUCTIONS})
    sees_threads = False
    disturbs = False
    module = agent

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        return refusal(answer, target.label)

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Parse the file that the agent wrote."""
        file = read_json(content, PerfcountFile, "perfcount")
        doubt = "" if file.is_complete else TAKEN.format(file.missing)
        whole = {INSTRUCTIONS: float(file.instructions)}
        return CostProfile(
            self.name,
            self.mode,
            {},
            whole,
            doubt=doubt,
            hides="perfcount counts the scheduler as a whole; callgrind tells functions apart",
        )


def refusal(answer: Mapping[str, Any], label: str) -> BackendUnavailableError:
    """Return why there is no counter, and what to do about it."""
    if answer["problem"] == "system":
        reason = f"perfcount needs Linux on x86-64 or ARM, and {label} runs {answer['system']}"
        return BackendUnavailableError(f"schedprof: {reason}", INSTEAD)
    if answer["error"] in (errno.EACCES, errno.EPERM):
        return _forbidden(answer["paranoid"], label)
    why = {
        errno.ENOENT: "the machine has none to lend, as most virtual machines",
        errno.ENOSYS: "the system there does not know perf_event_open, as in some sandboxes",
    }.get(answer["error"], f"the system says {errno.errorcode.get(answer['error'], 'no')}")
    return BackendUnavailableError(
        f"schedprof: {label} gets no counter of instructions: {why}", INSTEAD
    )


def _forbidden(paranoid: str, label: str) -> BackendNotPermittedError:
    is_paranoid = paranoid.isdigit() and int(paranoid) > FORBIDS
    by = f"perf_event_paranoid is {paranoid}" if is_paranoid else "a filter or policy refuses it"
    remedy = (
        "as root: sysctl kernel.perf_event_paranoid=2"
        if is_paranoid
        else "containers: permit perf_event_open, as with --cap-add PERFMON"
    )
    return BackendNotPermittedError(
        f"schedprof: {label} may not use counters of the processor: {by}", remedy, INSTEAD
    )


BACKEND: type[Backend] = PerfcountBackend
