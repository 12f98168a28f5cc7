"""Parts that all SVG pictures have: the frame, and text that may be anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any
from zlib import crc32

import msgspec

from pytest_schedprof.formats.speedscope import Samples, SpeedscopeFile
from pytest_schedprof.formats.unfolding import Stay, label_of, stays

COLOURS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"),
    *("#bcbd22", "#17becf", "#393b79"),
)

_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" font-family="{font}" font-size="{size}">
"""


def picture(
    width: int, height: int, parts: Iterable[str], *, font: str = "sans-serif", size: int = 13
) -> bytes:
    """Return the file of a picture, from its parts."""
    head = _HEAD.format(width=width, height=height, font=font, size=size)
    return "".join([head, *parts, "</svg>\n"]).encode()


def ground(width: int, height: int) -> str:
    """Return a white ground: a picture may be opened on a dark page."""
    return f'<rect width="{width}" height="{height}" fill="white"/>\n'


def plain(text: str) -> str:
    """Escape any text for XML: names can contain anything, such as `<lambda>`."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def write(x: float, y: float, text: str) -> str:
    """Write text at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}">{plain(text)}</text>\n'


WIDTH = 1200
ROW = 17
LETTER = 7.2
"""Width of a letter in a monospaced font of 12 pixels."""

MIN_WIDTH = 0.2
"""Width in pixels below which a frame is left out: it is invisible, and such frames are many."""

STYLE = "<style>rect { stroke: white; stroke-width: 0.3 } g:hover rect { stroke: black }</style>\n"


def write_flamegraph(file: SpeedscopeFile) -> bytes:
    """Draw callers below callees, each as wide as its number of samples, threads apart."""
    return draw_flamegraph(_stacks(file))


def draw_flamegraph(stacks: Mapping[tuple[str, ...], int]) -> bytes:
    """Draw a flame graph of stacks (outermost frame first) and their numbers of samples."""
    found = sorted(stays(sorted(stacks.items())), key=lambda stay: (stay.depth, stay.start))
    total = max((stay.end for stay in found), default=1)
    height = ROW * (max((stay.depth for stay in found), default=0) + 1)
    boxes = (_box(stay, total, height) for stay in found)
    return picture(WIDTH, height, [STYLE, *boxes], font="monospace", size=12)


def _stacks(file: SpeedscopeFile) -> Counter[tuple[str, ...]]:
    """Count the samples of each stack, below a root for all and one for each thread."""
    labels = [label_of(frame) for frame in file.frames]
    counts: Counter[tuple[str, ...]] = Counter()
    for thread in file.threads:
        for index, count in Counter(thread.stacks).items():
            stack = ["all", thread.thread or "thread without a name"]
            stack.extend(labels[frame] for frame in file.stacks[index])
            counts[tuple(stack)] += count
    return counts


def _box(stay: Stay, total: int, height: int) -> str:
    """Draw one frame, with a title that a viewer shows under the pointer."""
    samples = stay.end - stay.start
    x, width = (WIDTH * part / total for part in (stay.start, samples))
    if width < MIN_WIDTH:
        return ""
    y = height - ROW * (stay.depth + 1)
    title = f"{stay.label}: {samples} samples, {samples / total:.1%}"
    return (
        f"<g><title>{plain(title)}</title>"
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW}" fill="{_colour(stay)}"/>'
        f'<text x="{x + 3:.2f}" y="{y + 13}">{plain(_cut(stay.label, width))}</text></g>\n'
    )


def _cut(label: str, width: float) -> str:
    """Shorten a label to the width of its box."""
    room = int((width - 6) / LETTER)
    if len(label) <= room:
        return label
    return label[: room - 2] + ".." if room > 3 else ""


def _colour(stay: Stay) -> str:
    """Return the colour of a function, the same in every picture."""
    number = crc32(stay.label.encode(errors="replace"))
    return f"#{235 + number % 20:02x}{130 + number // 32 % 100:02x}{60 + number // 4096 % 50:02x}"


MICROSECONDS = 1e6


def write_timeline(file: SpeedscopeFile) -> bytes:
    """Write a trace with one track for each thread, for Perfetto or chrome://tracing."""
    labels = [label_of(frame) for frame in file.frames]
    stacks = [[labels[frame] for frame in stack] for stack in file.stacks]
    events = [
        event
        for number, thread in enumerate(file.threads, start=1)
        for event in _thread(number, thread, stacks)
    ]
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})


def _thread(number: int, thread: Samples, stacks: list[list[str]]) -> Iterator[dict[str, Any]]:
    """Yield a thread's name, and its frames in the order in which they began, callers first."""
    place = {"pid": 1, "tid": number}
    yield {"ph": "M", "name": "thread_name", "args": {"name": thread.thread}, **place}
    runs = ((stacks[index], sum(1 for _ in same)) for index, same in groupby(thread.stacks))
    for stay in sorted(stays(runs), key=lambda stay: (stay.start, stay.depth)):
        # Start and end are rounded, not the duration, so that a callee never outlasts its caller.
        start, end = (round(at * thread.seconds * MICROSECONDS) for at in (stay.start, stay.end))
        yield {"ph": "X", "name": stay.label, "ts": start, "dur": end - start, **place}
