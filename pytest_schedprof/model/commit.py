"""The commit that a run was made at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """What git says of the tests' directory when a run is written."""

    sha: str
    branch: str
    """Empty where no branch is checked out and no CI service names one."""
    time: str
    """When it was committed, in UTC."""
    is_dirty: bool
    """Whether tracked files differ from it, or git did not say in time that they do not."""
