"""Parts of charts: each is a piece of SVG, and a chart is the pieces of its parts, joined.

What has a class takes its colours from the style of the page that it is in, or of its own file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

COLOURS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"),
    *("#bcbd22", "#17becf", "#393b79"),
)

ROW = 20
"""Pixels of a line of a legend."""

MOST_TICKS = 6

_NOT_IN_XML = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Scale(NamedTuple):
    """Places of amounts along one side of a chart."""

    most: float
    """The amount at the end."""
    length: float
    """Negative if the place of a larger amount is a smaller number, as upwards in SVG."""
    start: float = 0.0

    def __call__(self, amount: float) -> float:
        return round(self.start + self.length * amount / (self.most or 1.0), 1)


def plain(text: str) -> str:
    """Escape any text for XML: names can contain anything, such as `<lambda>`."""
    return escape(re.sub(_NOT_IN_XML, "\ufffd", text))


def element(name: str, *parts: str, **attributes: str | float) -> str:
    """Return an element; its `title` is shown under the pointer.

    Names of attributes have `_` in place of `-`, and may end with one: `class_` is a class.
    """
    title = str(attributes.pop("title", ""))
    pairs = "".join(
        f' {key.strip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    content = "".join([f"<title>{plain(title)}</title>" if title else "", *parts])
    return f"<{name}{pairs}>{content}</{name}>\n" if content else f"<{name}{pairs}/>\n"


def _value(value: str | float) -> str:
    return plain(value) if isinstance(value, str) else f"{round(value, 1):g}"


def words(x: float, y: float, text: str, **attributes: str | float) -> str:
    return element("text", plain(text), **attributes, x=x, y=y)


def box(x: float, y: float, width: float, height: float, **attributes: str | float) -> str:
    return element("rect", **attributes, x=x, y=y, width=width, height=height)


def path(steps: str, **attributes: str | float) -> str:
    """Return a line or an area, by its steps in the language of SVG."""
    return element("path", **attributes, d=steps)


def line(points: Iterable[tuple[float, float]], **attributes: str | float) -> str:
    return element("polyline", **attributes, points=" ".join(f"{x:g},{y:g}" for x, y in points))


def time_axis(x: Scale, top: float, bottom: float, second: float = 1.0) -> Iterator[str]:
    """Yield upright lines at round times with their names below.

    Args:
        second: its length in the unit of the scale.
    """
    power = 10.0 ** floor(log10(x.most))
    step = next(
        size
        for size in (power / 5, power / 2, power, power * 2)
        if x.most <= size * MOST_TICKS * (1 + 1e-9)
    )
    times = [number * step for number in range(int(x.most / step * (1 + 1e-9)) + 1)]
    lines = "".join(f"M{x(time):g} {top:g}V{bottom:g}" for time in times)
    yield path(f"{lines}M{x(0):g} {bottom:g}H{x(x.most):g}", class_="axis")
    for time in times:
        yield words(x(time), bottom + 13, f"{time / second:g} s", class_="tick")


def legend(x: float, y: float, texts: Iterable[str]) -> Iterator[str]:
    """Yield a numbered line for each text with its colour: numbers can be read without colours."""
    for number, text in enumerate(texts, start=1):
        bottom = y + ROW * number
        yield box(x, bottom - 12, 12, 12, fill=COLOURS[(number - 1) % len(COLOURS)])
        yield words(x + 20, bottom - 1, f"{number}  {text}")


def in_page(
    label: str, view: Sequence[float], parts: Iterable[str], **attributes: str | float
) -> str:
    """Return a chart as a part of a page.

    Args:
        label: which is read to those who do not see the chart.
        view: left, top, width and height of what is shown.
    """
    sides = " ".join(f"{side:g}" for side in view)
    return element("svg", *parts, **attributes, viewBox=sides, role="img", aria_label=label)


_FILE = """<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" \
font-family="sans-serif" font-size="13">
<style>.axis {{ fill: none; stroke: #ddd }} .tick {{ text-anchor: middle }}{2}</style>
<rect x="0" y="0" width="{0}" height="{1}" fill="white"/>
{3}</svg>
"""


def as_file(width: float, height: float, parts: Iterable[str], style: str = "") -> bytes:
    """Return a chart as a file, on white: it may be opened on a dark page."""
    return _FILE.format(round(width), round(height), style, "".join(parts)).encode()
