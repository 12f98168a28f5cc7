"""What a limit is held against, whichever kind of backend measured it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Estimate


class Grounds(Protocol):
    """Answers for every metric of one backend, of any subject that a limit can name."""

    def seen(self, metric: str) -> Collection[Function]:
        """The functions that it has something to say of."""

    def of(self, metric: str, subject: str) -> Estimate:
        """The metric of a function, of an `@owner`, or, without a subject, of the whole."""

    def growth(self, metric: str, subject: str) -> Estimate:
        """The exponent with which the metric's amount grows with the scale of the test."""

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        """Why no verdict on its growth is possible; empty if one is."""

    def doubt(self, metric: str, subject: str) -> str:
        """Why no verdict on the metric is possible; empty if one is."""
