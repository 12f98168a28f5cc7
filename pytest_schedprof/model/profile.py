"""Parsed recordings of a backend: samples of stacks, or costs of functions."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

Function: TypeAlias = str
"""`module:qualname`, without path and line, so that two checkouts give the same name."""

CodeLocation: TypeAlias = tuple[str, str, int]
"""File, name and line of a function or a frame, as a profiler reports them."""

Namer: TypeAlias = Callable[[list[CodeLocation]], Sequence[Function]]
"""Returns the function of each location; the process that has loaded the code knows it."""

Stack: TypeAlias = tuple[Function, ...]
"""Functions from the thread's outermost to the innermost."""


SpanName: TypeAlias = tuple[str, ...]
"""Tags of a span of dask, from the outermost; empty for work that is for no task."""


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """What was counted for the spans of one name."""

    name: SpanName
    tasks: int
    """Tasks that came to them in the recording."""
    counts: Mapping[str, float]
    """Amounts by metric."""


@dataclass(frozen=True, slots=True)
class Thread:
    """The samples of one thread, in the order in which they were taken."""

    name: str
    samples: array[int]
    """Indexes into the stacks of the profile."""


@dataclass(frozen=True, slots=True)
class SampleProfile:
    """The samples of one recording; a stack is stored once, however often it was seen."""

    backend: str
    mode: str
    """Options that change what a sample means; profiles of different modes are never compared."""
    stacks: tuple[Stack, ...]
    threads: tuple[Thread, ...]
    empty_samples: int = 0
    """Number of samples without a frame; they belong to no share."""
    doubt: str = ""
    """Why it cannot judge any limit, for example late samples; else empty."""
    is_held_back: bool = False
    """Whether a sample due while C code ran was taken right after it, with a weight for that time.
    Time of the garbage collector is then attributed to distributed's callback for it."""
    is_shared: bool = False
    """Whether the test, workers and clients ran in the same process as the scheduler."""
    is_of_cpu: bool = False
    """Whether it was sampled at steps of CPU time. Then a sample in which a thread waits stands for
    CPU time, too: that of beginning to wait."""
    sample_seconds: float = 0.0
    """Time by the clock that each sample stands for; 0 if it was sampled at steps of CPU time."""
    whose: tuple[SpanName, ...] = ()
    """Of each stack, the span whose work it was; empty if nobody knows. A stack that was seen for
    several spans is there several times."""
    span_tasks: Mapping[SpanName, int] = field(default_factory=dict)
    """Tasks that came to the spans of each name in the recording."""


@dataclass(frozen=True, slots=True)
class CostProfile:
    """Costs of each function and of the scheduler as a whole in one recording."""

    backend: str
    mode: str
    functions: Mapping[Function, Mapping[str, float]]
    """Costs of each function by metric, over the whole recording. `self_seconds` are without
    callees; `peak` and `leaked` are the function's own part of the whole. Of objects, these are
    types."""
    whole: Mapping[str, float] = field(default_factory=dict)
    """Metrics that belong to no single function, as messages or the peak of memory."""
    doubt: str = ""
    """Why it cannot judge any limit, for example a trace without its beginning; else empty."""
    hides: str = ""
    """Why a function that is missing in it may still have run; else empty."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Metrics of the backend, and functions, that could not be measured, each with the reason."""
    hash: str = ""
    """Hash of everything that happened in the recording, if it can be told; else empty."""
    is_everything: bool = False
    """Whether it has all code that the scheduler ran, and no other: libraries and plugins too."""
    spans: tuple[SpanCounts, ...] = ()
    """What of `whole` belongs to which spans; empty if that was not told apart."""
    code: Mapping[Function, str] = field(default_factory=dict)
    """Digests of the code of functions, with spaces between them; empty if they are not known."""


Profile: TypeAlias = SampleProfile | CostProfile


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern; all characters but `*` and `?` match themselves.

    Whatever it holds, matching takes no more steps than the pattern's length times the name's.
    What follows a `*` is matched where it comes first, and never tried again further on: one that
    comes later leaves less for the rest.
    """
    first, *others = (_piece(text) for text in re.split(r"\*+", pattern))
    *middle, last = others or [""]
    pieces = (f"(?>.*?{piece})" for piece in middle)
    return re.compile(f"(?s:{first}{''.join(pieces)}{'.*' if others else ''}{last})")


def _piece(text: str) -> str:
    return re.escape(text).replace(r"\?", ".")


def has_wildcard(pattern: str) -> bool:
    """Whether the pattern can match more than one function."""
    return "*" in pattern or "?" in pattern
