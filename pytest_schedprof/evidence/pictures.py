"""Write evidence as JSON and as pages drawn by Bokeh, which open without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib.util import find_spec
from typing import Any

import msgspec
from dask.utils import key_split

from pytest_schedprof.evidence.contract import Brought
from pytest_schedprof.model.evidence import TaskRecord

NO_BOKEH = "no picture of it: Bokeh is not installed where the tests run; pip install bokeh"


def as_json(data: Any) -> bytes:
    """Encode as JSON without whitespace."""
    return msgspec.json.encode(data)


def with_pictures(
    files: Mapping[str, bytes],
    pictures: Mapping[str, Callable[[], bytes]],
    notes: tuple[str, ...] = (),
) -> Brought:
    """Add pictures to files, or a note for each picture that could not be drawn."""
    if find_spec("bokeh") is None:
        return Brought(files, (*notes, NO_BOKEH))
    drawn, lines = dict(files), list(notes)
    for name, draw in pictures.items():
        try:
            drawn[name] = draw()
        except Exception as error:  # a release of dask may not support this release of Bokeh
            lines.append(f"no {name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return Brought(drawn, tuple(lines))


def tasks_picture(tasks: Sequence[TaskRecord]) -> bytes:
    """Draw tasks with dask's own plot of the task stream."""
    from distributed.dashboard.components.scheduler import task_stream_figure
    from distributed.diagnostics.task_stream import rectangles

    source, plot = task_stream_figure(sizing_mode="stretch_both")
    as_dask_has_them = [
        {
            "key": task.key,
            "worker": task.worker,
            "thread": task.thread,
            "status": "error" if task.has_failed else "OK",
            "startstops": [msgspec.to_builtins(time) for time in task.times],
        }
        for task in tasks
    ]
    source.data.update(rectangles(as_dask_has_them))
    return page(plot, "task stream")


def page(plot: Any, title: str) -> bytes:
    """Return a plot as one HTML file that needs no other."""
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    return str(file_html(plot, INLINE, title)).encode()


def local_picture(profilers: Sequence[Any], begun: float, ended: float) -> bytes:
    """Draw dask's own plots of its local schedulers, one below the other."""
    from dask.diagnostics.profile_visualize import visualize

    shown = [copy(profiler) for profiler in profilers]  # users may read their profilers afterwards
    for profiler in shown:
        profiler.results = [_named(result) for result in profiler.results]
        # Set here because entering a profiler, which sets them, would clear its results.
        profiler.start_time, profiler.end_time = begun, ended
    return page(visualize(shown, show=False, save=False), "local scheduler")


def _named(result: Any) -> Any:
    """Replace a result's task by its name, because dask's plots show whole tasks.

    Cached results are told apart by their representation, so there is one line for each name.
    """
    if not hasattr(result, "task"):
        return result

    class Named(type(result)):  # type: ignore[misc]
        def __repr__(self) -> str:
            return str(key_split(self.key))

    return Named(*result._replace(task=_Name(key_split(result.key))))


class _Name(str):
    """A string whose representation has no quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
