"""From a file's frames, one per line of code, to a profile of functions."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from pytest_schedprof.formats.speedscope import SpeedscopeFile
from pytest_schedprof.model.profile import Function, SampleProfile, Stack, Thread


def name_frames(
    file: SpeedscopeFile,
    namer: Callable[[list[tuple[str, str, int]]], Sequence[Function]],
    *,
    backend: str,
    mode: str,
    is_held_back: bool = False,
) -> SampleProfile:
    """Merge the lines of each function and give every function its identity."""
    names = namer([(frame.file or "", frame.name, frame.line or 0) for frame in file.frames])
    index_of: dict[Stack, int] = {}
    merged = [
        index_of.setdefault(tuple(names[frame] for frame in stack), len(index_of))
        for stack in file.stacks
    ]
    return SampleProfile(
        backend=backend,
        mode=mode,
        stacks=tuple(index_of),
        threads=tuple(
            Thread(samples.thread, array("q", (merged[i] for i in samples.stacks)))
            for samples in file.threads
        ),
        empty_samples=sum(samples.empty for samples in file.threads),
        is_held_back=is_held_back,
    )
