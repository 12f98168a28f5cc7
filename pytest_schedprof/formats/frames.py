"""Makes a profile of functions from a file's frames, which are one per line of code."""

from __future__ import annotations

from array import array

from pytest_schedprof.formats.speedscope import SpeedscopeFile
from pytest_schedprof.model.profile import Namer, SampleProfile, Stack, Thread


def name_frames(
    file: SpeedscopeFile,
    namer: Namer,
    *,
    backend: str,
    mode: str,
    is_held_back: bool = False,
    is_of_cpu: bool = False,
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
        is_of_cpu=is_of_cpu,
        sample_seconds=0.0 if is_of_cpu else _seconds(file),
    )


def _seconds(file: SpeedscopeFile) -> float:
    return max((samples.seconds for samples in file.threads), default=0.0)
