"""What pages that Bokeh draws have in them: legends, lines and texts."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DOCUMENT = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)


def legend_of(page: Path) -> list[str]:
    """Return the texts of the legend, in their order."""
    return [item["label"]["value"] for item in _models(_document(page), "LegendItem")]


def lines_of(page: Path) -> list[tuple[str, list[float]]]:
    """Return each line's name and where it is on the horizontal axis."""
    return [
        (line["name"], dict(line["data_source"]["attributes"]["data"]["entries"])["x"])
        for line in _models(_document(page), "GlyphRenderer")
    ]


def texts_of(page: Path) -> list[str]:
    """Return the texts between plots, which are HTML."""
    return [text["text"] for text in _models(_document(page), "Div")]


def _document(page: Path) -> Any:
    (document,) = _DOCUMENT.findall(page.read_text(encoding="utf-8"))
    return json.loads(html.unescape(document))


def _models(node: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the attributes of each model of that name."""
    if isinstance(node, dict):
        if node.get("type") == "object" and node.get("name") == name:
            yield node["attributes"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        yield from _models(child, name)
