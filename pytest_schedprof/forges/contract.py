"""What a forge can do for a job. A pull request is what GitLab calls a merge request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple


@dataclass(frozen=True, slots=True)
class Job:
    """The CI job that this process runs in."""

    branch: str
    default_branch: str
    request: int | None
    """Number of the pull request that the job is for."""
    commit: str
    checkout: Path

    @property
    def is_reference(self) -> bool:
        """Whether later jobs are compared with this one: it is for the default branch itself."""
        return self.request is None and bool(self.branch) and self.branch == self.default_branch


class Comment(NamedTuple):
    """A comment on a pull request."""

    key: int
    body: str


class Forge(ABC):
    """The API of a forge, for one job."""

    job: Job
    note: str
    """What a comment or baseline needs, for messages."""

    @abstractmethod
    def comments(self) -> Iterable[Comment]:
        """Return all comments on the job's pull request, the oldest first."""

    @abstractmethod
    def add_comment(self, body: str) -> None:
        """Write a new comment."""

    @abstractmethod
    def edit_comment(self, key: int, body: str) -> None:
        """Replace the text of a comment."""

    @abstractmethod
    def download_baseline(self, name: str, to: BinaryIO) -> bool:
        """Fetch the archive with the default branch's newest baseline; return whether there is one.

        Args:
            name: that the jobs were given.
            to: gets a zip archive.
        """
