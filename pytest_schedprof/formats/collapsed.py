"""Writer of collapsed stacks: a line for each, as flamegraph.pl and many others read them."""

from __future__ import annotations

from collections import Counter

from pytest_schedprof.formats.speedscope import SpeedscopeFile
from pytest_schedprof.formats.stays import label_of


def write_collapsed(file: SpeedscopeFile) -> bytes:
    """`thread;caller (file);callee (file) 12`, the stacks in order."""
    labels = [_safe(label_of(frame)) for frame in file.frames]
    counts: Counter[str] = Counter()
    for thread in file.threads:
        for index, count in Counter(thread.stacks).items():
            frames = (labels[frame] for frame in file.stacks[index])
            counts[";".join([_safe(thread.thread) or "thread", *frames])] += count
    lines = (f"{stack} {count}\n" for stack, count in sorted(counts.items()))
    return "".join(lines).encode("utf-8", "replace")


def _safe(label: str) -> str:
    """Without what ends a frame or a line."""
    return " ".join(label.replace(";", ":").split())
