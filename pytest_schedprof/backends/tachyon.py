"""tachyon, the sampler of Python 3.15: known by name, and refused with a reason.

This release does not drive it: where it could be tried out there is no Python that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.contract import Namer, Setting
from pytest_schedprof.backends.options import read_options
from pytest_schedprof.clusters.contract import Target
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    BackendUnavailableError,
    FormatError,
)

FIRST_PYTHON = (3, 15)
INSTEAD = "use pyspy, or cputime, which measure the same shares"


@dataclass(frozen=True, slots=True)
class TachyonOptions:
    """None."""


class TachyonBackend:
    """Says why it cannot record, and what can."""

    name = "tachyon"
    suffix = "tachyon.bin"
    metrics = frozenset({"share", "self"})
    drift = 0.0
    targets = frozenset({"scheduler"})
    sees_threads = True
    disturbs = False
    mode = ""

    def __init__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str] = ()
    ) -> None:
        read_options(TachyonOptions, self.name, options)

    @property
    def settings(self) -> Mapping[str, Setting]:
        """None."""
        return {}

    def start(self, target: Target, *, timeout_s: float) -> NoReturn:
        """Refuse, by the scheduler's version of Python."""
        raise refusal(target.call(facts.describe)["python"], target.label)

    def read(self, content: bytes, namer: Namer) -> NoReturn:
        """There is nothing that it could have recorded."""
        raise FormatError("schedprof: not a file that this release reads: tachyon records nothing")

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        """None."""
        return {}


def refusal(python: str, label: str) -> BackendUnavailableError:
    """For a scheduler that runs this version of Python."""
    major, minor, *_ = python.split(".")
    if (int(major), int(minor)) < FIRST_PYTHON:
        return BackendNotInstalledError(
            "schedprof: tachyon comes with Python 3.15 and newer (profiling.sampling), and "
            f"{label} runs Python {python}",
            INSTEAD,
        )
    return BackendUnavailableError(
        f"schedprof: this release does not drive tachyon yet, although {label} "
        f"runs Python {python}, which has it",
        INSTEAD,
    )
