"""Evidence as files: JSON, and pages drawn by Bokeh that open without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib.util import find_spec
from typing import Any

import msgspec
from dask.utils import key_split

from pytest_schedprof.evidence.contract import Brought
from pytest_schedprof.model.evidence import MemorySamples, TaskRecord

NO_BOKEH = "no picture of it: Bokeh is not installed where the tests run; pip install bokeh"

MEGABYTE = 2**20

DASHES = ("solid", "dashed", "dotted", "dotdash")


def as_json(data: Any) -> bytes:
    """For programs: as short as can be."""
    return msgspec.json.encode(data)


def with_pictures(
    files: Mapping[str, bytes],
    pictures: Mapping[str, Callable[[], bytes]],
    notes: tuple[str, ...] = (),
) -> Brought:
    """The files with the pictures, or with a note why one could not be drawn: data come first."""
    if find_spec("bokeh") is None:
        return Brought(files, (*notes, NO_BOKEH))
    drawn, told = dict(files), list(notes)
    for name, draw in pictures.items():
        try:
            drawn[name] = draw()
        except Exception as error:  # not each release of dask knows each of Bokeh
            told.append(f"no {name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return Brought(drawn, tuple(told))


def memory_picture(found: Sequence[MemorySamples]) -> bytes:
    """A line for each take, by its dashes, and measure, by its colour, from the take's begin on."""
    from bokeh.palettes import Category10
    from bokeh.plotting import figure

    plot = figure(
        x_axis_label="seconds since the take began",
        y_axis_label="memory of all workers (MiB)",
        sizing_mode="stretch_both",
        tools="pan,wheel_zoom,box_zoom,reset,hover",
        tooltips=[("seconds", "$x{0.0}"), ("MiB", "$y{0.0}")],
    )
    measures = list(dict.fromkeys(each.measure for each in found))
    for each in found:
        begun = each.samples[0][0]
        plot.line(
            [when - begun for when, _ in each.samples],
            [held / MEGABYTE for _, held in each.samples],
            legend_label=f"{each.measure}, take {each.take}",
            line_dash=DASHES[(each.take - 1) % len(DASHES)],
            line_width=2,
            color=Category10[10][measures.index(each.measure)],
        )
    plot.legend.click_policy = "hide"
    return page(plot, "memory of all workers")


def tasks_picture(tasks: Sequence[TaskRecord]) -> bytes:
    """Dask's own task stream."""
    from distributed.dashboard.components.scheduler import task_stream_figure
    from distributed.diagnostics.task_stream import rectangles

    source, plot = task_stream_figure(sizing_mode="stretch_both")
    source.data.update(rectangles([_as_dask_has_it(each) for each in tasks]))
    return page(plot, "task stream")


def _as_dask_has_it(task: TaskRecord) -> dict[str, Any]:
    return {
        "key": task.key,
        "worker": task.worker,
        "thread": task.thread,
        "status": "error" if task.has_failed else "OK",
        "startstops": [
            {"action": each.action, "start": each.start, "stop": each.stop} for each in task.times
        ],
    }


def page(plot: Any, title: str) -> bytes:
    """One file with all that it needs."""
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    return str(file_html(plot, INLINE, title)).encode()


def local_picture(profilers: Sequence[Any], begun: float, ended: float) -> bytes:
    """Dask's own plots of its local schedulers, one below the other."""
    from dask.diagnostics.profile_visualize import visualize

    shown = [copy(profiler) for profiler in profilers]  # the user's may be looked at afterwards
    for profiler in shown:
        profiler.results = [_named(each) for each in profiler.results]
        # As if they had been entered, which clears them.
        profiler.start_time, profiler.end_time = begun, ended
    return page(visualize(shown, show=False, save=False), "local scheduler")


def _named(result: Any) -> Any:
    """By its name: dask's plots show all that a task holds, arrays too, and a line for each.

    What is cached is told apart by how all of it reads; so a line is drawn for each name.
    """
    if not hasattr(result, "task"):
        return result

    class Named(type(result)):  # type: ignore[misc]
        def __repr__(self) -> str:
            return str(key_split(self.key))

    return Named(*result._replace(task=_Name(key_split(result.key))))


class _Name(str):
    """A text that reads as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
