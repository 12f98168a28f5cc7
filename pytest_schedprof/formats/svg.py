"""Parts that all SVG pictures have: the frame, and text that may be anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

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
