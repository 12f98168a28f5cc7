"""What a kind of evidence is to those who gather it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.model.result import BackendResult


class EvidenceUnavailableError(SchedprofError):
    """One kind of evidence cannot be had here; its text is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What a kind brought of all takes."""

    files: Mapping[str, bytes]
    """By their names, which begin with that of the kind."""
    notes: tuple[str, ...] = ()
    """What is not as one would expect, in a line each."""


class Kind(Protocol):
    """One instrument of dask's, at one scheduler and for one test."""

    def take(self, number: int) -> AbstractContextManager[None]:
        """Around one take, outside of what backends record.

        Raises:
            EvidenceUnavailableError: if it cannot be had here.
        """

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """All that there is to keep, once the last take is over.

        Args:
            found: what the backends found in the same takes.

        Raises:
            EvidenceUnavailableError: if there is nothing.
        """

    def close(self) -> None:
        """Leave nothing on the scheduler; called once in any case, also of a kind that failed."""
        return


MakeKind = Callable[[SchedulerUnderTest, str], Kind]
"""Of a scheduler and the ID of the test that runs on it; raises EvidenceUnavailableError."""
