"""Writer of a bar of amounts as an SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from pytest_schedprof.formats.svg import COLOURS, ground, picture, plain, write

WIDTH, BAR, ROW, LEFT = 900, 40, 20, 10


def draw_bar(parts: Sequence[tuple[str, float]]) -> bytes:
    """Draw parts side by side, numbered, with a list of their amounts in microseconds below.

    The numbers make the picture readable without colours.
    """
    total = sum(amount for _, amount in parts) or 1.0
    ends = list(accumulate(amount for _, amount in parts))
    height = 2 * ROW + BAR + ROW * (len(parts) + 1)
    lines = [ground(WIDTH, height)]
    lines.append(write(LEFT, ROW - 4, f"{_micro(total)} of CPU per task"))
    for number, ((label, amount), end) in enumerate(zip(parts, ends, strict=True), start=1):
        lines += _part(number, label, amount / total, (end - amount) / total, _micro(amount))
    return picture(WIDTH, height, lines)


def _part(number: int, label: str, part: float, begin: float, amount: str) -> list[str]:
    room = WIDTH - 2 * LEFT
    x, width, colour = LEFT + room * begin, room * part, COLOURS[(number - 1) % len(COLOURS)]
    text = plain(f"{number}  {label}: {amount} ({part:.0%})")
    y = ROW + BAR + ROW * (number + 1)
    inside = (
        f'<text x="{x + width / 2:.1f}" y="{ROW + BAR / 2 + 5}" fill="white" '
        f'text-anchor="middle">{number}</text>'
        if width > ROW
        else ""
    )
    return [
        f'<g><title>{text}</title><rect x="{x:.1f}" y="{ROW}" width="{width:.1f}" height="{BAR}" '
        f'fill="{colour}" stroke="white"/>{inside}</g>\n',
        f'<rect x="{LEFT}" y="{y - 12}" width="12" height="12" fill="{colour}"/>'
        f'<text x="{LEFT + 20}" y="{y - 1}">{text}</text>\n',
    ]


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us"
