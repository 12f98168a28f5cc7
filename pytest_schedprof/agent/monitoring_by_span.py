"""Counts with `sys.monitoring`, with the counts of each span apart."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from .choice import Answer
from .counted import TABLES, Counted
from .monitoring import Callbacks, Monitor, monitoring
from .whose import NOBODY, Whose


class Now(Mapping[int, Any]):
    """A table of counts: that of the span which the calling thread works for."""

    def __init__(self, tables: Mapping[int, Mapping[str, Any]], name: str) -> None:
        self.tables, self.name = tables, name

    def __getitem__(self, code: int) -> Any:
        return self.tables[get_ident()][self.name][code]

    def __iter__(self) -> Any:
        return iter(self.tables[get_ident()][self.name])

    def __len__(self) -> int:
        return len(self.tables[get_ident()][self.name])


class MonitorBySpan(Monitor):
    """Counts for the span whose work is done; the sum over all is what a plain monitor counts."""

    depth = 2  # a callback below calls the one of the plain monitor

    def __init__(self, whose: Whose, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.whose = whose
        empty = {name: type(getattr(self, name)) for name in TABLES}
        factories = {name: getattr(self, name).default_factory for name in TABLES}
        self.parts: defaultdict[str, dict[str, Any]] = defaultdict(
            lambda: {name: empty[name](factories[name]) for name in TABLES}
        )
        """Tables of each label."""
        self.stretches: defaultdict[int, list[str]] = defaultdict(list)
        """Labels of the stretches of work that each thread is in, the innermost last."""
        self.now: defaultdict[int, dict[str, Any]] = defaultdict(lambda: self.parts[NOBODY])
        """Tables of the label for which each thread works."""
        for name in TABLES:
            setattr(self, name, Now(self.now, name))

    def labels(self) -> list[str]:
        """Return all labels that something was counted for."""
        return list(self.parts)

    def counted_for(self, label: str) -> Counted:
        """Return what was counted that belongs to a label."""
        found = Counted()
        vars(found).update(self.parts[label], armed=self.armed)
        return found

    def calls_of(self, code: CodeType) -> int:
        """Return how often it was called, whoever for."""
        return sum(self.counted_for(label).calls_of(code) for label in self.labels())

    def executed(self, code: CodeType) -> Mapping[int, int]:
        """Return how often each of its instructions ran, whoever for."""
        sums: defaultdict[int, int] = defaultdict(int)
        for label in self.labels():
            for offset, times in self.counted_for(label).executed(code).items():
                sums[offset] += times
        return sums

    def _callbacks(self) -> tuple[Callbacks, Callbacks]:
        """Return callbacks that begin and end stretches around those of the plain monitor."""
        events = monitoring().events
        before = {events.PY_START, events.PY_RESUME, events.PY_THROW}
        after = {events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND}
        local, wide = super()._callbacks()
        for callbacks in (local, wide):
            for event in before & callbacks.keys():
                callbacks[event] = self._beginning(callbacks[event])
            for event in after & callbacks.keys():
                callbacks[event] = self._ending(callbacks[event])
        return local, wide

    def _beginning(self, callback: Callable[..., object]) -> Callable[..., object]:
        stretches = self.whose.stretches

        def begin(code: CodeType, *args: object) -> object:
            if id(code) in stretches:
                self._enter(sys._getframe(1))
            return callback(code, *args)

        return begin

    def _ending(self, callback: Callable[..., object]) -> Callable[..., object]:
        stretches = self.whose.stretches

        def end(code: CodeType, *args: object) -> object:
            result = callback(code, *args)
            if id(code) in stretches:
                self._leave_stretch()
            return result

        return end

    def _enter(self, frame: FrameType) -> None:
        """Begin a stretch; one of which nobody knows whose it is goes on with the outer one's.

        Its end is seen whether or not its code is counted.
        """
        if id(frame.f_code) not in self.armed and self._find(frame) is not Answer.YES:
            self._arm(frame.f_code)
        thread, label = get_ident(), self.whose.label_of(frame)
        under_way = self.stretches[thread]
        under_way.append(label or (under_way[-1] if under_way else NOBODY))
        self.now[thread] = self.parts[under_way[-1]]

    def _leave_stretch(self) -> None:
        thread = get_ident()
        under_way = self.stretches[thread]
        if under_way:  # else it had begun before the recording
            under_way.pop()
        self.now[thread] = self.parts[under_way[-1] if under_way else NOBODY]
