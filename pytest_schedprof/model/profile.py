"""What a sampling backend brought back, parsed."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TypeAlias

Function: TypeAlias = str
"""`module:qualname`. Never a path, never a line: two checkouts give the same identity."""

Stack: TypeAlias = tuple[Function, ...]
"""Functions from the thread's root to the one that was running."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread's samples in the order they were taken."""

    name: str
    samples: array[int]
    """Indexes into the stacks of the profile."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The samples of one recording; a stack is stored once, however often it was seen."""

    backend: str
    mode: str
    """Options that change what a sample means. Profiles of two modes are never compared."""
    stacks: tuple[Stack, ...]
    threads: tuple[Thread, ...]
    empty_samples: int = 0
    """Samples that held no frame at all; they belong to no share."""
