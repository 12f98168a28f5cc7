"""What a backend brought back, parsed: samples of stacks, or costs of functions."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
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
class SampleProfile:
    """The samples of one recording; a stack is stored once, however often it was seen."""

    backend: str
    mode: str
    """Options that change what a sample means. Profiles of two modes are never compared."""
    stacks: tuple[Stack, ...]
    threads: tuple[Thread, ...]
    empty_samples: int = 0
    """Samples that held no frame at all; they belong to no share."""
    doubt: str = ""
    """Why no limit can be judged by it, as of samples that came too late; else empty."""
    is_held_back: bool = False
    """Whether a sample due while C code ran was taken right after it and weighed for it. The time
    of the garbage collector is then that of the callback which distributed has there."""


@dataclass(frozen=True, slots=True)
class CostProfile:
    """What each function, and the scheduler as a whole, cost in one recording."""

    backend: str
    mode: str
    functions: Mapping[Function, Mapping[str, float]]
    """By metric, over the whole recording; `self_seconds` are seconds without callees, and
    `peak` and `leaked` the function's own part of the whole's."""
    whole: Mapping[str, float] = field(default_factory=dict)
    """Metrics of no one function, as messages or the peak of memory."""
    doubt: str = ""
    """Why no limit can be judged by it, as of a trace that lacks its beginning; else empty."""
    hides: str = ""
    """Why a function that is not in it may have run all the same; else empty."""


Profile: TypeAlias = SampleProfile | CostProfile
