"""What opens an artifact, by the ending of its name."""

from __future__ import annotations

OPENERS = {
    ".speedscope.json": "speedscope",
    ".chrometrace.json": "Perfetto, or vizviewer",
    ".viztracer.json": "vizviewer, or Perfetto",
    ".viztracer.json.gz": "vizviewer, or Perfetto",
    ".pstats": "python -m pstats, or snakeviz",
    ".memray.bin": "memray",
    ".svg": "a browser",
    ".html": "a browser",
}


def opener_of(name: str) -> str:
    """Empty for what any editor opens."""
    return next((opener for ending, opener in OPENERS.items() if name.endswith(ending)), "")
