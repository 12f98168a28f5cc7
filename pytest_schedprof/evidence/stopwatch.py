"""Measure the CPU time of functions of dask's client, by phase."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from operator import attrgetter
from typing import Any

PatchTarget = tuple[str, str]
"""A module and the qualified name of a function or method in it."""


class Stopwatch:
    """Wraps functions while active; only the outermost call counts."""

    def __init__(self, places: Mapping[str, Sequence[PatchTarget]]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._places = places
        self._thread = threading.local()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Wrap the functions; those that this release of dask lacks are left out."""
        with ExitStack() as opened:
            for phase, places in self._places.items():
                for place in places:
                    self._wrap(phase, *place, opened)
            yield

    def _wrap(self, phase: str, module: str, name: str, opened: ExitStack) -> None:
        *owners, last = name.split(".")
        try:
            holder: Any = import_module(module)
            holder = attrgetter(".".join(owners))(holder) if owners else holder
            function = vars(holder)[last]
        except (ImportError, AttributeError, KeyError):
            return
        is_static = isinstance(function, staticmethod)
        timed = self._timed(phase, function.__func__ if is_static else function)
        setattr(holder, last, staticmethod(timed) if is_static else timed)
        opened.callback(setattr, holder, last, function)

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:
            if getattr(self._thread, "is_inside", False):
                return function(*args, **keywords)
            self._thread.is_inside, begun = True, time.thread_time()
            try:
                return function(*args, **keywords)
            finally:
                self._thread.is_inside = False
                self.seconds[phase] += time.thread_time() - begun

        return timed
