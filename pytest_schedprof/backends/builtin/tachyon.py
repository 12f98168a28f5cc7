"""tachyon, the sampler of Python 3.15: known by name, and refused with a reason."""

from __future__ import annotations

from typing import NoReturn

from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.plain import PlainBackend
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    BackendUnavailableError,
    FormatError,
)
from pytest_schedprof.model.backend import TEXT, Artifact
from pytest_schedprof.model.profile import Namer
from pytest_schedprof.remote.contract import Target

FIRST_PYTHON = (3, 15)
INSTEAD = "use pyspy, or cputime, which measure the same shares"


class TachyonBackend(PlainBackend):
    """Refuses to record, and names backends that measure the same."""

    name = "tachyon"
    rank = None
    artifacts = (Artifact("tachyon.bin", TEXT),)
    measures = frozenset({"share", "self"})
    drift = 0.0
    targets = frozenset({"scheduler"})
    sees_threads = True
    disturbs = False
    needs = ()

    def start(self, target: Target, *, timeout_s: float) -> NoReturn:
        """Raise the refusal for the scheduler's version of Python."""
        # Imported here because it imports dask, which reading the class's facts must not do.
        from pytest_schedprof.agent import facts

        raise refusal(target.call(facts.describe)["python"], target.label)

    def read(self, content: bytes, namer: Namer) -> NoReturn:
        """Raise FormatError: tachyon never records a file."""
        raise FormatError("schedprof: not a file that this release reads: tachyon records nothing")


def refusal(python: str, label: str) -> BackendUnavailableError:
    """Return the error for a scheduler that runs this version of Python."""
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


BACKEND: type[Backend] = TachyonBackend
