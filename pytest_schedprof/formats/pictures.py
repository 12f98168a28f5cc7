"""Samples as others show them: flame graph, collapsed stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from zlib import crc32

from msgspec import Struct

from pytest_schedprof.formats.charts import Scale, as_file, box, element, words
from pytest_schedprof.formats.speedscope import Frame, SpeedscopeFile

WIDTH = 1200
ROW = 17
LETTER = 7.2
"""Width of a letter in a monospaced font of 12 pixels."""

MIN_WIDTH = 0.2
"""Width in pixels below which a frame is left out: it is invisible, and such frames are many."""

STYLE = """ text { font: 12px monospace } rect { stroke: white; stroke-width: 0.3 } \
g:hover rect { stroke: black }"""


def write_flamegraph(file: SpeedscopeFile) -> bytes:
    """Draw callers below callees, each as wide as its number of samples, threads apart."""
    labels = [label_of(frame) for frame in file.frames]
    counts: Counter[tuple[str, ...]] = Counter()
    for thread, stack, count in file.counted():
        frames = (labels[frame] for frame in stack)
        counts["all", thread or "thread without a name", *frames] += count
    return draw_flamegraph(counts)


def draw_flamegraph(stacks: Mapping[tuple[str, ...], int]) -> bytes:
    """Draw a flame graph of stacks (outermost frame first) and their numbers of samples."""
    shown = sorted(frame_spans(sorted(stacks.items())), key=lambda span: (span.depth, span.start))
    x = Scale(max((span.end for span in shown), default=1), WIDTH)
    height = ROW * (max((span.depth for span in shown), default=0) + 1)
    boxes = (_box(span, x, height - ROW * (span.depth + 1)) for span in shown)
    return as_file(WIDTH, height, boxes, STYLE)


def _box(span: FrameSpan, x: Scale, top: float) -> str:
    """Draw one frame in a colour that its function has in every picture."""
    samples, label = span.end - span.start, span.label
    if samples / x.most * WIDTH < MIN_WIDTH:
        return ""
    left, width = x(span.start), x(span.end) - x(span.start)
    room = int((width - 6) / LETTER)
    if len(label) > room:
        label = label[: room - 2] + ".." if room > 3 else ""
    hash = crc32(span.label.encode(errors="replace"))
    colour = f"#{235 + hash % 20:02x}{130 + hash // 32 % 100:02x}{60 + hash // 4096 % 50:02x}"
    return element(
        "g",
        box(left, top, width, ROW, fill=colour),
        words(left + 3, top + 13, label),
        title=f"{span.label}: {samples} samples, {samples / x.most:.1%}",
    )


class FrameSpan(Struct, frozen=True):
    """A frame that stayed at the same place of the stack from `start` to `end`."""

    label: str
    depth: int
    start: int
    end: int


def label_of(frame: Frame) -> str:
    """Return function and file, without the line, so that a function's lines are merged."""
    return f"{frame.name} ({frame.file})" if frame.file else frame.name


def frame_spans(stacks: Iterable[tuple[Sequence[str], int]]) -> Iterator[FrameSpan]:
    """Yield each frame for as long as it and its callers stay the same, callees before callers.

    Args:
        stacks: labels from the root on, and how long the stack lasted.
    """
    opened: list[tuple[str, int]] = []
    now = 0
    for stack, length in stacks:
        common = 0  # frames, from the root on, that are still the same
        for (label, _), other in zip(opened, stack, strict=False):
            if label != other:
                break
            common += 1
        yield from _closed(opened, common, now)
        opened.extend((label, now) for label in stack[common:])
        now += length
    yield from _closed(opened, 0, now)


def _closed(opened: list[tuple[str, int]], depth: int, now: int) -> Iterator[FrameSpan]:
    while len(opened) > depth:
        label, start = opened.pop()
        yield FrameSpan(label, len(opened), start, now)


def write_raw(file: SpeedscopeFile) -> bytes:
    """Write collapsed stacks as py-spy does: by line of code, and all threads together."""
    labels = [
        _safe(f"{frame.name} ({frame.file}:{frame.line})" if frame.file else frame.name)
        for frame in file.frames
    ]
    counts: Counter[str] = Counter()
    for _, stack, count in file.counted():
        counts[";".join(labels[frame] for frame in stack)] += count
    lines = (f"{stack} {count}\n" for stack, count in sorted(counts.items()))
    return "".join(lines).encode("utf-8", "replace")


def _safe(label: str) -> str:
    """Replace what would end a frame or a line."""
    return " ".join(label.replace(";", ":").split())
