"""One window: backends are started and stopped around what is measured. Knows no pytest.

Profiler trouble is kept in `errors` and never raised: it must not hide what the test
itself has to say.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pytest_schedprof.agent import facts, recordings
from pytest_schedprof.backends.contract import Backend, RawProfile, Recording
from pytest_schedprof.clusters.contract import Target
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.targets import find_targets
from pytest_schedprof.errors import RecordingError, SchedprofError, SchedulerLostError, as_own
from pytest_schedprof.model.result import Segment

DEATH_PATIENCE_S = 5.0

STEADY_S = 0.15
SETTLING_S = 2.0
"""What disturbs the scheduler counts or times all that it does: also the end of it, and what is
left of the round before."""


Watch: TypeAlias = Callable[[], Callable[[], Mapping[str, float]]]
"""Begins to look at the client; what it returns ends that, and tells CPU seconds by phase."""


def no_watch() -> Callable[[], Mapping[str, float]]:
    """Where nobody asked for the client's phases."""
    return dict


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """What was observed between a start and a stop."""

    facts: Segment
    raw: dict[str, RawProfile]
    """Of the scheduler, by the backend's name."""
    elsewhere: tuple[tuple[str, Target, RawProfile], ...] = ()
    """Of other targets, each with the backend's name."""


@dataclass(slots=True)
class _Open:
    """A segment that is being recorded."""

    begun_at: float
    before: dict[str, Any]
    targets: list[Target]
    """Where recordings were begun, though perhaps no answer came."""
    recordings: list[tuple[str, Target, Recording]]
    is_window_asked: bool = False
    """Whether the scheduler may have opened it, though perhaps no answer came."""
    unwatch: Callable[[], Mapping[str, float]] = dict


@dataclass(slots=True)
class Recorder:
    """Records the rounds of one test; `measure` narrows a round to parts of it."""

    control: Control
    backends: Sequence[Backend]
    timeout_s: float
    death: Callable[[float], str | None] = lambda patience_s: None
    """How the scheduler ended, if it is known to have ended within so many seconds."""
    targets: Sequence[str] = ()
    """What is to be observed beside the scheduler."""
    is_shared: bool = False
    """Whether others may use the scheduler too."""
    watch: Watch = no_watch
    rounds: list[list[SegmentRecord]] = field(default_factory=list)
    errors: list[SchedprofError] = field(default_factory=list)
    """What went wrong with the recording itself."""
    _open: _Open | None = None
    _depth: int = 0
    _is_narrowed: bool = False
    _scale: int = 0
    _taking_part: Sequence[Backend] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def troubles(self) -> list[str]:
        """What to tell the user of each error."""
        return [str(error) for error in self.errors]

    @contextmanager
    def round(self, backends: Sequence[Backend] | None = None, scale: int = 0) -> Iterator[None]:
        """Record what happens inside as one round of these backends, or of all."""
        self._scale = scale
        self._taking_part = self.backends if backends is None else backends
        self.rounds.append([])
        self._is_narrowed = False
        self._start()
        try:
            yield
        finally:
            self._stop(keep=not self._is_narrowed)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Narrow the round to what happens inside; inside another one it changes nothing.

        Those of several threads or coroutines count from the first one's begin to the last's end.
        """
        with self._lock:
            if self._depth == 0:
                self._stop(keep=False)
                self._is_narrowed = True
                self._start()
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if self._depth == 0:
                    self._stop(keep=True)

    def _start(self) -> None:
        """Start all backends, or none."""
        if self.errors:
            return
        opened = _Open(time.time(), {}, [], [])
        with self._keeping_trouble(), self._unless_interrupted(opened):
            try:
                self._settle()
                for backend, target in self._observations():
                    opened.targets.append(target)
                    recording = backend.start(target, timeout_s=self.timeout_s)
                    opened.recordings.append((backend.name, target, recording))
                opened.is_window_asked = True
                opened.before = self.control.call(facts.open_window, self._own_client)
                opened.unwatch = self.watch()  # last: what the recorder does is no phase
                self._open = opened
            finally:
                if self._open is not opened:
                    self._abandon(opened)

    @property
    def _own_client(self) -> str:
        """Whose tasks are to be told from others'; nobody's on a scheduler of our own."""
        return self.control.client_id if self.is_shared else ""

    def _observations(self) -> Iterator[tuple[Backend, Target]]:
        """The scheduler's come last: it is busy with starting and fetching those of workers."""
        wanted = [target for target in self.targets if target != self.control.kind]
        for target in find_targets(self.control, wanted) if wanted else ():
            for backend in self._taking_part:
                if target.kind in backend.targets:
                    yield backend, target
        for backend in self._taking_part:
            yield backend, self.control

    def _stop(self, *, keep: bool) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        client = dict(opened.unwatch())
        if death := self._death(0):
            self.errors.append(
                SchedulerLostError(f"schedprof: {death}; its profile is lost with it")
            )
        elif not keep:
            self._abandon(opened)
        else:
            with self._keeping_trouble(), self._unless_interrupted(opened):
                self.rounds[-1].append(self._close(opened, client))

    def _close(self, opened: _Open, client: dict[str, float]) -> SegmentRecord:
        self._settle()
        after = self.control.call(facts.close_window, self._own_client)
        raw: dict[str, RawProfile] = {}
        elsewhere: list[tuple[str, Target, RawProfile]] = []
        for name, target, recording in reversed(opened.recordings):
            with self._keeping_trouble():
                brought = recording.stop(timeout_s=self.timeout_s)
                if target is self.control:
                    raw[name] = brought
                else:
                    elsewhere.insert(0, (name, target, brought))
        segment = replace(_segment(opened.before, after), scale=self._scale, client=client)
        return SegmentRecord(segment, raw, tuple(elsewhere))

    def _settle(self) -> None:
        """What was begun before a window is no part of it, and what is begun in it is."""
        if any(backend.disturbs for backend in self._taking_part):
            self.control.call(facts.settle, STEADY_S, SETTLING_S)

    def _abandon(self, opened: _Open) -> None:
        if opened.is_window_asked:
            with self._keeping_trouble():
                self.control.call(facts.close_window, self._own_client)
        for _, _, recording in reversed(opened.recordings):
            with self._keeping_trouble():
                recording.abandon(timeout_s=self.timeout_s)

    @contextmanager
    def _unless_interrupted(self, opened: _Open) -> Iterator[None]:
        """A Ctrl-C, or a test's own timeout, may come in the midst of a start or a stop."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            for target in {id(each): each for each in opened.targets}.values():
                with self._keeping_trouble():
                    target.call(recordings.end_all, target.client_id)
            raise

    def _death(self, patience_s: float) -> str | None:
        """To ask how the scheduler ended may fail, too, as where an engine has to be asked."""
        try:
            return self.death(patience_s)
        except Exception as error:
            return str(as_own(error)).removeprefix("schedprof: ")

    @contextmanager
    def _keeping_trouble(self) -> Iterator[None]:
        try:
            yield
        except SchedulerLostError as error:
            death = self._death(DEATH_PATIENCE_S)
            self.errors.append(SchedulerLostError(f"schedprof: {death}") if death else error)
        except Exception as error:
            # A backend of a third party may raise anything; it is still no fault of the test.
            self.errors.append(as_own(error))


def _segment(before: dict[str, Any], after: dict[str, Any]) -> Segment:
    if any(after[name] < before[name] for name in ("tasks", "transitions")):
        raise RecordingError(
            "schedprof: the scheduler's counters ran backwards, so nothing can be said per task; "
            "do not reset them during the test"
        )
    return Segment(
        seconds=after["time"] - before["time"],
        cpu_seconds=after["cpu"] - before["cpu"],
        tasks=after["tasks"] - before["tasks"],
        transitions=after["transitions"] - before["transitions"],
        others_tasks=after.get("others_tasks", 0),
    )
