"""The kind `memory`: what all workers together held in memory, sampled by the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.agent import instruments
from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.evidence.contract import (
    Brought,
    Kind,
    ObservedTest,
    RunFigures,
    page,
    with_pictures,
)
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.metric import MEASURES, SAMPLED
from pytest_schedprof.model.options import Names, Seconds, check_above_zero
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.result import BackendResult

TITLE = "memory of all workers"

MEGABYTE = 2**20

DASHES = ("solid", "dashed", "dotted", "dotdash", "12 4", "2 8", "16 4 2 4", "6 2 6 8")

COLOURS = 20


def memory_picture(sides: Mapping[str, Sequence[MemorySamples]]) -> bytes:
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
    measures = list(dict.fromkeys(taken.measure for side in sides.values() for taken in side))
    for number, (side, samples) in enumerate(sides.items()):
        for taken in samples:
            if not taken.samples:
                continue
            start, measure = taken.samples[0][0], measures.index(taken.measure)
            label, colour, dash = f"{side}: {taken.measure}", number, measure
            name = f"{label}, take {taken.take}"
            if len(sides) == 1:
                label = name = name.removeprefix(f"{side}: ")
                colour, dash = measure, taken.take - 1
            plot.line(
                [moment - start for moment, _ in taken.samples],
                [held / MEGABYTE for _, held in taken.samples],
                name=name,
                legend_label=label,
                line_dash=DASHES[dash % len(DASHES)],
                line_width=2,
                color=colours[colour % COLOURS],
            )
    for legend in plot.legend[:1]:
        legend.click_policy = "hide"
        plot.add_layout(legend, "right")
    return page(plot, TITLE)


FILE = "memory.json"

INTERVAL_S = 0.2
"""Workers report their memory at most twice a second, each at a time of its own."""
MANY = 200
"""Number of workers above which sampling is slower: each sample sums over all workers."""


class MemoryOptions(Struct, frozen=True):
    measures: Names = SAMPLED
    """What to sample, beside what limits bound."""
    interval: Seconds | None = None
    """Seconds between samples; by default 0.2, or more with many workers."""

    def __post_init__(self) -> None:
        if unknown := [measure for measure in self.measures if measure not in MEASURES]:
            raise SettingsError(
                f"schedprof: option memory.measures must be any of {', '.join(MEASURES)}, "
                f"got {quoted(unknown[0])}"
            )
        check_above_zero("memory.interval", self.interval)


def measures_of(options: MemoryOptions, limits: Sequence[Limit]) -> tuple[str, ...]:
    """Return what to sample: what the options name, and what the limits bound."""
    bound = [compile_pattern(limit.pattern) for limit in limits if limit.measured == "memory"]
    return tuple(
        measure
        for measure in MEASURES
        if measure in options.measures or any(pattern.fullmatch(measure) for pattern in bound)
    )


class MemoryKind(Kind, name="memory", description="what all workers held in memory"):
    """Uses the scheduler's side of dask's `MemorySampler`, for several measures at once.

    It is called over the control line: the test's client would wait long for a scheduler that died.
    """

    options_type = MemoryOptions

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        scheduler = test.scheduler
        self._measures = measures_of(self.options, test.limits)
        self._control = scheduler.control
        self._client = scheduler.client.id
        usual = INTERVAL_S * max(1.0, len(scheduler.workers) / MANY)
        self._interval = self.options.interval or usual
        self._samples: list[MemorySamples] = []

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        started = self._client, self._measures, self._interval
        keys = self._control.call(instruments.start_samplers, *started)
        try:
            yield
        finally:
            sampled = self._control.call(instruments.stop_samplers, keys)
            for measure, samples in zip(self._measures, sampled, strict=True):
                pairs = tuple((moment, held) for moment, held in samples)
                self._samples.append(MemorySamples(number, measure, pairs))

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        return brought_memory(self._samples, before=self.before._samples if self.before else ())


def brought_memory(
    samples: Sequence[MemorySamples],
    notes: tuple[str, ...] = (),
    before: Sequence[MemorySamples] = (),
) -> Brought:
    """Return samples with a picture and the highest of each run; the other side's are beside."""
    sides = {"now": samples, **({"before": before} if before else {})}
    pictures = {"memory.html": lambda: memory_picture(sides)}
    brought = with_pictures({FILE: msgspec.json.encode(samples)}, pictures, notes)
    peaks: dict[str, dict[int, float]] = {taken.measure: {} for taken in samples}
    for taken in samples:
        if taken.samples:
            peaks[taken.measure][taken.take] = max(float(held) for _, held in taken.samples)
    figures = [RunFigures("memory", measure, by_run) for measure, by_run in peaks.items()]
    return replace(brought, figures=figures)
