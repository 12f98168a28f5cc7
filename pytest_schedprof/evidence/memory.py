"""The kind `memory`: what all workers together held in memory, sampled by the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_schedprof.agent import instruments as reports
from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.evidence.contract import Brought, Kind, ObservedTest, RunFigures
from pytest_schedprof.evidence.pictures import as_json, page, with_pictures
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.metric import MEASURES, SAMPLED
from pytest_schedprof.model.options import Names, Seconds, check_above_zero
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.store.run_directory import NOW

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


FILE = "memory.json"

INTERVAL_S = 0.2
"""Workers report their memory at most twice a second, each at a time of its own."""
MANY = 200
"""Number of workers above which sampling is slower: each sample sums over all workers."""


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Options of the kind."""

    measures: Names = SAMPLED
    """What to sample, beside what limits bound."""
    interval: Seconds | None = None
    """Seconds between samples; by default 0.2, or more with many workers."""

    def __post_init__(self) -> None:
        if unknown := [each for each in self.measures if each not in MEASURES]:
            raise SettingsError(
                f"schedprof: option memory.measures must be any of {', '.join(MEASURES)}, "
                f"got {quoted(unknown[0])}"
            )
        check_above_zero("memory.interval", self.interval)


def measures_of(options: MemoryOptions, limits: Sequence[Limit]) -> tuple[str, ...]:
    """Return what to sample: what the options name, and what the limits bound."""
    bound = [compile_pattern(limit.pattern) for limit in limits if limit.measured == "memory"]
    return tuple(
        each
        for each in MEASURES
        if each in options.measures or any(pattern.fullmatch(each) for pattern in bound)
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
        """Sample until the run ends."""
        started = self._client, self._measures, self._interval
        keys = self._control.call(reports.start_samplers, *started)
        try:
            yield
        finally:
            sampled = self._control.call(reports.stop_samplers, keys)
            for measure, samples in zip(self._measures, sampled, strict=True):
                found = tuple((when, held) for when, held in samples)
                self._samples.append(MemorySamples(number, measure, found))

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the samples as JSON, and one picture of all sides."""
        others = [Drawn(side, each._samples) for side, each in self.others.items()]
        return brought_memory(self._samples, others=others)


def brought_memory(
    samples: Sequence[MemorySamples], notes: tuple[str, ...] = (), others: Sequence[Drawn] = ()
) -> Brought:
    """Return samples with a picture and the highest of each run; others are drawn beside."""
    data, drawn = {FILE: as_json(samples)}, [Drawn(NOW, samples), *others]
    brought = with_pictures(data, {"memory.html": lambda: memory_picture(drawn)}, notes)
    measures = dict.fromkeys(each.measure for each in samples)
    return replace(brought, figures=[_peaks(measure, samples) for measure in measures])


def _peaks(measure: str, samples: Sequence[MemorySamples]) -> RunFigures:
    found = [each for each in samples if each.measure == measure and each.samples]
    peaks = {each.take: max(float(held) for _, held in each.samples) for each in found}
    return RunFigures("memory", measure, peaks)


KIND: type[Kind] = MemoryKind
