"""Draw the memory of workers: of one test, on all of its sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_schedprof.evidence.pictures import page
from pytest_schedprof.model.evidence import MemorySamples

TITLE = "memory of all workers"

MEGABYTE = 2**20

DASHES = ("solid", "dashed", "dotted", "dotdash", "12 4", "2 8", "16 4 2 4", "6 2 6 8")

COLOURS = 20


class Drawn(NamedTuple):
    """What one side held."""

    name: str
    """What tells it apart in the picture; without meaning if it is alone there."""
    samples: Sequence[MemorySamples]


class _Style(NamedTuple):
    label: str
    name: str
    colour: int
    dash: int


def memory_picture(found: Sequence[Drawn]) -> bytes:
    """Draw a line for each run of the body and measure, all of which begin at zero.

    Of one side, colours tell measures, and dashes tell runs of the body. Of several, colours tell
    sides, and dashes tell measures.
    """
    from bokeh.palettes import Category20
    from bokeh.plotting import figure

    colours = [*Category20[COLOURS][::2], *Category20[COLOURS][1::2]]
    plot = figure(
        title=TITLE,
        x_axis_label="seconds since the take began",
        y_axis_label="memory of all workers (MiB)",
        sizing_mode="stretch_both",
        tools="pan,wheel_zoom,box_zoom,reset,hover",
        tooltips=[("", "$name"), ("seconds", "$x{0.0}"), ("MiB", "$y{0.0}")],
    )
    for each, style in _styled(found):
        begun = each.samples[0][0]
        plot.line(
            [when - begun for when, _ in each.samples],
            [held / MEGABYTE for _, held in each.samples],
            name=style.name,
            legend_label=style.label,
            line_dash=DASHES[style.dash % len(DASHES)],
            line_width=2,
            color=colours[style.colour % COLOURS],
        )
    for legend in plot.legend[:1]:
        legend.click_policy = "hide"
        plot.add_layout(legend, "right")
    return page(plot, TITLE)


def _styled(found: Sequence[Drawn]) -> list[tuple[MemorySamples, _Style]]:
    measures = list(dict.fromkeys(each.measure for one in found for each in one.samples))
    return [
        (each, _style(number, one.name, each, measures, is_alone=len(found) == 1))
        for number, one in enumerate(found)
        for each in one.samples
        if each.samples
    ]


def _style(
    number: int, name: str, each: MemorySamples, measures: list[str], *, is_alone: bool
) -> _Style:
    measure, take = measures.index(each.measure), f", take {each.take}"
    if is_alone:
        return _Style(each.measure + take, each.measure + take, measure, each.take - 1)
    label = f"{name}: {each.measure}"
    return _Style(label, label + take, number, measure)
