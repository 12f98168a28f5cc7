"""Writer of the bandwidth between each pair of workers as an SVG picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from pytest_schedprof.formats.svg import ground, picture, plain, write

CELL, LEFT, TOP, LETTER = 64, 150, 60, 18
"""Pixels: of a cell, of the names of receivers and of senders; and letters of a name at most."""

MOST = 40
"""Workers that are drawn at most: those that moved most bytes."""


class Moved(NamedTuple):
    """What one worker received of another."""

    bytes: int
    seconds: float
    transfers: int

    @property
    def bandwidth(self) -> float:
        """Bytes per second while a transfer was under way."""
        return self.bytes / self.seconds if self.seconds else 0.0


Pairs = Mapping[tuple[str, str], Moved]
"""By the names of sender and receiver."""


def draw_pairs(pairs: Pairs) -> bytes:
    """Draw a row for each receiver and a column for each sender, darker where it was faster."""
    names = _busiest(pairs)
    fastest = max((each.bandwidth for each in pairs.values()), default=0.0)
    width, height = LEFT + CELL * len(names), TOP + CELL * len(names)
    lines = [ground(width, height)]
    lines.append(write(6, 16, "MB/s; columns send, rows receive"))
    for number, name in enumerate(names):
        lines.append(write(LEFT + CELL * number + 4, TOP - 8, _cut(name, CELL // 8)))
        lines.append(write(6, TOP + CELL * number + CELL // 2, _cut(name, LETTER)))
    for (sender, receiver), moved in sorted(pairs.items()):
        if {sender, receiver} <= set(names):
            place = LEFT + CELL * names.index(sender), TOP + CELL * names.index(receiver)
            lines.append(_cell(place, f"{sender} to {receiver}", moved, fastest))
    return picture(width, height, lines, size=12)


def _busiest(pairs: Pairs) -> list[str]:
    moved = {name: 0 for pair in pairs for name in pair}
    for pair, each in pairs.items():
        for name in pair:
            moved[name] += each.bytes
    return sorted(sorted(moved, key=lambda name: (-moved[name], name))[:MOST])


def _cell(place: tuple[int, int], pair: str, moved: Moved, fastest: float) -> str:
    x, y = place
    title = (
        f"{pair}: {moved.bandwidth / 1e6:.3g} MB/s, "
        f"{moved.bytes} bytes in {moved.transfers} transfers"
    )
    return (
        f"<g><title>{plain(title)}</title>"
        f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" '
        f'fill="{_colour(moved.bandwidth, fastest)}"/>'
        f"{write(x + 6, y + CELL // 2, f'{moved.bandwidth / 1e6:.3g}').strip()}</g>\n"
    )


def _colour(bandwidth: float, fastest: float) -> str:
    """Return a blue: the fastest pair's is dark enough to see, and black text stays legible."""
    part = math.log1p(bandwidth) / math.log1p(fastest) if fastest else 0.0
    light = round(245 - 110 * part**4)
    return f"#{light:02x}{light + 8:02x}ff"


def _cut(name: str, letters: int) -> str:
    """Return the end of a name, where addresses differ."""
    return name if len(name) <= letters else f"..{name[2 - letters :]}"
