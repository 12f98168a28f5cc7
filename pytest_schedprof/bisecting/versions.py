"""What a search needs to know of the versions that it searches: commits or releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pytest_schedprof.bisecting.session import Runnable


class Versions(Protocol):
    """Versions in order: the first one is good, the last one is bad."""

    names: Sequence[str]
    """Names for the journal, which stand for the same code for ever."""

    @property
    def noun(self) -> str:
        """What they are: `commit` or `release`."""

    def label(self, number: int) -> str:
        """Return a version's name for people."""

    def about(self, number: int) -> Sequence[str]:
        """Return lines that tell more of a version."""

    def suspicion(self, functions: Mapping[str, float]) -> Mapping[int, float]:
        """Return how much each version is suspected to have changed these functions.

        Args:
            functions: with amounts that tell how much each one matters.
        """

    def ready(self, number: int, place: Path) -> AbstractContextManager[Runnable]:
        """Get a version ready, and remove on exit what was made for it.

        Args:
            number: of the version.
            place: a directory for what is made; it may have leftovers of a killed search.

        Raises:
            UnmeasuredError: if it does not build, or cannot be imported.
        """
