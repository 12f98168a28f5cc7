"""Pictures of what a scheduler carries: cost against workers, and threads against seconds.

Both have logarithmic axes, so that small sizes can be seen beside large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from pytest_schedprof.model.capacity import Capacity, Carried, Forecast
from pytest_schedprof.presentation.capacity import about, time_of

WIDTH, HEIGHT = 560, 300
"""Size of a picture without its labels, as in `capacity.html`."""

SIDES = ("new", "old")
"""Class of each side's line."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """One side: a line, its bounds as an area, and what was measured."""

    side: str
    points: str
    band: str
    dots: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture."""

    title: str
    across: str
    """What the horizontal axis is."""
    xs: tuple[Tick, ...]
    ys: tuple[Tick, ...]
    lines: tuple[Line, ...]
    measured_to: float | None
    """Where the measured sizes end."""
    marks: tuple[tuple[float, float, str], ...]
    """Places that the text speaks of."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis over whole decades."""

    least: float
    most: float
    length: float
    is_upward: bool = False

    @classmethod
    def over(cls, values: Iterable[float], length: float, *, is_upward: bool = False) -> Axis:
        """Return an axis that has all positive values."""
        logs = [log10(each) for each in values if each > 0 and isfinite(each)] or [0.0]
        least = floor(min(logs) + 1e-9)
        return cls(least, max(ceil(max(logs) - 1e-9), least + 1), length, is_upward)

    def place(self, value: float) -> float:
        """Return where a value is; one beyond the axis is at its end."""
        part = (log10(max(value, 1e-300)) - self.least) / (self.most - self.least)
        part = min(1.0, max(0.0, part))
        return round(self.length * (1 - part if self.is_upward else part), 1)

    def ticks(self, text: Callable[[float], str]) -> tuple[Tick, ...]:
        """Return a mark for each decade."""
        decades = (10.0**each for each in range(int(self.least), int(self.most) + 1))
        return tuple(Tick(self.place(each), text(each)) for each in decades)


def pictures_of(capacity: Capacity) -> tuple[Picture, ...]:
    """Return both pictures."""
    return (_cost(capacity.sides), _saturation(capacity.sides))


def _cost(sides: Sequence[Carried]) -> Picture:
    at = [each for side in sides for each in side.sizes]
    across = Axis.over((each.workers for each in at), WIDTH)
    upward = Axis.over(
        (value for each in at for value in (each.cost.value, each.cost.low, each.cost.high)),
        HEIGHT,
        is_upward=True,
    )
    lines = []
    for name, side in zip(SIDES, sides, strict=False):
        forecasts = [(float(each.workers), each.cost) for each in side.sizes]
        dots = tuple(
            (
                across.place(each.workers),
                upward.place(each.cost),
                f"{each.workers:,} workers: {time_of(each.cost)}",
            )
            for each in side.measured.workers
        )
        lines.append(_line(name, forecasts, dots, across, upward))
    last = max(each.workers for each in sides[0].measured.workers)
    return Picture(
        "CPU time per task",
        "workers",
        across.ticks(about),
        upward.ticks(time_of),
        tuple(lines),
        across.place(last),
        (),
    )


def _saturation(sides: Sequence[Carried]) -> Picture:
    at = [each for side in sides for each in side.saturation]
    across = Axis.over((each.seconds for each in at), WIDTH)
    upward = Axis.over(
        (value for each in at for value in (each.threads.value, each.threads.high)),
        HEIGHT,
        is_upward=True,
    )
    lines = []
    for name, side in zip(SIDES, sides, strict=False):
        forecasts = [(each.seconds, each.threads) for each in side.saturation]
        lines.append(_line(name, forecasts, (), across, upward))
    marks = tuple(
        (
            across.place(each.seconds),
            upward.place(each.threads.value),
            about(each.threads.value),
        )
        for each in sides[0].saturation
    )
    return Picture(
        "Threads that saturate the scheduler",
        "how long a task takes",
        across.ticks(time_of),
        upward.ticks(about),
        tuple(lines),
        None,
        marks,
    )


def _line(
    name: str,
    forecasts: Sequence[tuple[float, Forecast]],
    dots: tuple[tuple[float, float, str], ...],
    across: Axis,
    upward: Axis,
) -> Line:
    def path(figure: Callable[[Forecast], float]) -> list[str]:
        return [f"{across.place(x):g},{upward.place(figure(each)):g}" for x, each in forecasts]

    lower = path(lambda each: each.low)
    band = [*path(lambda each: each.high), *reversed(lower)]
    return Line(name, " ".join(path(lambda each: each.value)), " ".join(band), dots)
