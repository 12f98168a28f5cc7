"""Writer of flame graphs as SVG pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from zlib import crc32

from pytest_schedprof.formats.speedscope import SpeedscopeFile
from pytest_schedprof.formats.stays import Stay, label_of, stays
from pytest_schedprof.formats.svg import picture, plain

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
