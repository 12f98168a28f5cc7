"""Writer of amounts over time as an SVG picture of stacked columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_schedprof.formats.svg import COLOURS, ground, picture, plain, write

WIDTH, HEIGHT, LEFT, TOP, ROW = 900, 240, 60, 30, 20
"""Pixels: of the plot, of its margins, and of a line of the legend."""

OTHERS = "others"


class Column(NamedTuple):
    """Amounts per second in a stretch of time, which is given in seconds."""

    start: float
    stop: float
    amounts: Mapping[str, float]


def draw_stacked(columns: Sequence[Column], title: str, unit: str) -> bytes:
    """Draw a column for each stretch; as many kinds have a colour as there are colours.

    Every column tells its amounts under the pointer, and the legend has the kinds by their number
    and whole amount, so that no colour has to be known.

    Args:
        columns: with amounts per second.
        title: what they are.
        unit: of amounts in a whole stretch.
    """
    kinds = _kinds(columns)
    end = max((each.stop for each in columns), default=1.0)
    most = max((sum(each.amounts.values()) for each in columns), default=0.0) or 1.0
    height = TOP + HEIGHT + 2 * ROW + ROW * (len(kinds) + 1)
    width = LEFT + WIDTH + ROW
    lines = [ground(width, height)]
    lines.append(write(LEFT, TOP - 10, title))
    lines += _axes(end, most)
    for column in columns:
        lines += _column(column, kinds, end, most)
    lines += _legend(kinds, columns, unit)
    return picture(width, height, lines)


def _kinds(columns: Sequence[Column]) -> list[str]:
    """Return the kinds that are told apart, the largest first."""
    amounts = _amounts(columns)
    named = sorted(amounts, key=lambda kind: (-amounts[kind], kind))
    if len(named) <= len(COLOURS):
        return named
    return [*named[: len(COLOURS) - 1], OTHERS]


def _amounts(columns: Sequence[Column]) -> Counter[str]:
    """Return the amount of each kind in all stretches."""
    found: Counter[str] = Counter()
    for each in columns:
        for kind, amount in each.amounts.items():
            found[kind] += amount * (each.stop - each.start)  # type: ignore[assignment]
    return found


def _merged(amounts: Mapping[str, float], kinds: Sequence[str]) -> dict[str, float]:
    merged = dict.fromkeys(kinds, 0.0)
    for kind, amount in amounts.items():
        merged[kind if kind in merged else OTHERS] += amount
    return merged


def _column(column: Column, kinds: Sequence[str], end: float, most: float) -> list[str]:
    x = LEFT + WIDTH * column.start / end
    width = max(1.0, WIDTH * (column.stop - column.start) / end - 1)
    amounts = {kind: each for kind, each in _merged(column.amounts, kinds).items() if each}
    told = ", ".join(f"{kind} {amount:.2g}" for kind, amount in amounts.items())
    lines = [f"<g><title>{plain(f'{column.start:.2f} to {column.stop:.2f} s: {told}')}</title>\n"]
    bottom = float(TOP + HEIGHT)
    for kind, amount in amounts.items():
        tall = HEIGHT * amount / most
        bottom -= tall
        lines.append(
            f'<rect x="{x:.1f}" y="{bottom:.1f}" width="{width:.1f}" height="{tall:.1f}" '
            f'fill="{COLOURS[kinds.index(kind)]}"/>\n'
        )
    return [*lines, "</g>\n"]


def _axes(end: float, most: float) -> list[str]:
    bottom = TOP + HEIGHT
    return [
        f'<path d="M{LEFT} {TOP}V{bottom}H{LEFT + WIDTH}" fill="none" stroke="black"/>\n',
        write(4, TOP + 10, f"{most:.3g}"),
        write(4, bottom, "0"),
        write(LEFT, bottom + ROW, "0 s"),
        write(LEFT + WIDTH - 50, bottom + ROW, f"{end:.3g} s"),
    ]


def _legend(kinds: Sequence[str], columns: Sequence[Column], unit: str) -> list[str]:
    whole = _merged(_amounts(columns), kinds)
    lines = []
    for number, kind in enumerate(kinds):
        y = TOP + HEIGHT + 2 * ROW + ROW * (number + 1)
        lines.append(
            f'<rect x="{LEFT}" y="{y - 12}" width="12" height="12" fill="{COLOURS[number]}"/>'
        )
        lines.append(write(LEFT + 20, y - 1, f"{number + 1}  {kind}: {whole[kind]:.0f} {unit}"))
    return lines
