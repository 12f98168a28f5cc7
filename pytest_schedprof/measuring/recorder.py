"""Records one test: starts and stops the backends around what is measured. Knows no pytest.

Profiler errors are kept in `errors` and never raised: they must not hide the test's own failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from pytest_schedprof.agent import facts, recordings
from pytest_schedprof.backends.contract import Backend, RawProfile, Recording
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import RecordingError, SchedprofError, SchedulerLostError, as_own
from pytest_schedprof.model.result import Segment


class SegmentRecord(Struct, frozen=True):
    """What was recorded between a start and a stop of the backends."""

    facts: Segment
    raw: dict[str, RawProfile]
    """Profiles by the backend's name."""


def _segment_between(before: dict[str, Any], after: dict[str, Any]) -> Segment:
    """Return the facts of a segment from the scheduler's counters at its start and at its end."""
    if any(after[name] < before[name] for name in ("tasks", "transitions")):
        raise RecordingError(
            "schedprof: the scheduler's counters ran backwards, so costs per task are unknown; "
            "do not reset them during the test"
        )
    return Segment(
        seconds=after["time"] - before["time"],
        cpu_seconds=after["cpu"] - before["cpu"],
        tasks=after["tasks"] - before["tasks"],
        transitions=after["transitions"] - before["transitions"],
        hash=after.get("hash", ""),
        graphs=after.get("graphs", ""),
    )


STILL_OPEN = (
    "schedprof: a measure() block was still open when the profiled code ended, so it measured "
    "nothing; end the thread or task that holds it before"
)
"""Nobody knows what such a block would measure."""

DEATH_PATIENCE_S = 5.0
"""How long to wait for the cluster to say how its scheduler died."""

STEADY_S = 0.15
"""A scheduler that made no transition for this long has finished its work."""

SETTLING_S = 2.0
"""How long to wait for that. Backends that disturb count or time everything the scheduler does:
also the end of the test's work, and what is left of the round before."""

Watch: TypeAlias = Callable[[], Callable[[], Mapping[str, float]]]
"""Starts timing client or workers. Returns what stops it and returns CPU seconds by phase."""


def no_watch() -> Callable[[], Mapping[str, float]]:
    """Time nothing: phases were not asked for."""
    return dict


class _Open(Struct):
    """A segment that is being recorded."""

    before: dict[str, Any] = field(default_factory=dict)
    is_recording_asked: bool = False
    """Whether the scheduler was asked to record, even if it has not answered."""
    recordings: dict[str, Recording] = field(default_factory=dict)
    """Recordings by the backend's name."""
    is_window_asked: bool = False
    """Whether the scheduler was asked to open the window, even if it has not answered."""
    unwatch: Callable[[], Mapping[str, float]] = dict
    unwatch_workers: Callable[[], Mapping[str, float]] = dict


class Recorder(Struct):
    """Records the rounds of one test; `measure` narrows a round to parts of the body."""

    control: Control
    backends: Sequence[Backend]
    timeout_s: float
    death: Callable[[float], str | None] = lambda patience_s: None
    """Return how the scheduler died, waiting up to that many seconds; None if it did not."""
    watch: Watch = no_watch
    watch_workers: Watch = no_watch
    is_repeated: bool = False
    """Whether rounds are compared with each other: each begins without garbage then."""
    rounds: list[list[SegmentRecord]] = field(default_factory=list)
    errors: list[SchedprofError] = field(default_factory=list)
    """Errors of the recording itself."""
    kept: dict[Path, RawProfile] = field(default_factory=dict)
    """Files that have been written, with what they hold."""
    _open: _Open | None = None
    _depth: int = 0
    _is_narrowed: bool = False
    _is_in_round: bool = False
    _scale: int = 0
    _taking_part: Sequence[Backend] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def tasks(self) -> int:
        """Tasks that the recorded rounds processed."""
        return sum(segment.facts.tasks for segments in self.rounds for segment in segments)

    @contextmanager
    def round(self, backends: Sequence[Backend] | None = None, scale: int = 0) -> Iterator[None]:
        """Record what happens inside as one round, with these backends or with all."""
        self._scale = scale
        self._taking_part = self.backends if backends is None else backends
        self.rounds.append([])
        self._is_narrowed = False
        self._is_in_round = True
        self._start()
        try:
            yield
        finally:
            with self._lock:
                self._is_in_round = False
                if self._depth:
                    self._depth = 0
                    self.errors.append(RecordingError(STILL_OPEN))
                self._stop(keep=not self._is_narrowed)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Narrow the round to what happens inside; nested, or between rounds, it changes nothing.

        Calls that overlap in several threads or coroutines count as one, from the first one's
        begin to the last one's end.
        """
        with self._lock:
            number = len(self.rounds)
            if self._is_in_round:
                if self._depth == 0:
                    self._stop(keep=False)
                    self._is_narrowed = True
                    self._start()
                self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                if number == len(self.rounds) and self._depth:  # else its round is over
                    self._depth -= 1
                    if self._depth == 0:
                        self._stop(keep=True)

    def _start(self) -> None:
        """Start all backends, or none."""
        if self.errors:
            return
        opened = _Open()
        with self._keeping_trouble(), self._unless_interrupted(opened):
            try:
                self._settle()
                opened.unwatch_workers = self.watch_workers()
                if self.is_repeated:
                    self.control.call(facts.collect_garbage)
                for backend in self._taking_part:
                    opened.is_recording_asked = True
                    recording = backend.start(self.control, timeout_s=self.timeout_s)
                    opened.recordings[backend.name] = recording
                opened.is_window_asked = True
                opened.before = self.control.call(facts.open_window)
                opened.unwatch = self.watch()  # last: the recorder's own work is no phase
                self._open = opened
            finally:
                if self._open is not opened:
                    self._abandon(opened)

    def _stop(self, *, keep: bool) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        client = dict(opened.unwatch())
        if death := self._death(0):
            self._lose(f"schedprof: {death}")
        elif not keep:
            self._abandon(opened)
        else:
            with self._keeping_trouble(), self._unless_interrupted(opened):
                try:
                    self.rounds[-1].append(self._close(opened, client))
                except SchedulerLostError as error:  # it can die, or be seen to, only now
                    self._lose(str(self._explained(error)))
        self._end_here(opened)

    def _lose(self, death: str) -> None:
        self.errors.append(SchedulerLostError(f"{death}; its profile is lost"))

    def _close(self, opened: _Open, client: dict[str, float]) -> SegmentRecord:
        try:
            self._settle()
            after = self.control.call(facts.close_window)
        except SchedulerLostError:
            raise
        except Exception:  # recordings that go on would be in the way of the next test's
            self._abandon(opened)
            raise
        raw: dict[str, RawProfile] = {}
        for name, recording in reversed(opened.recordings.items()):
            with self._keeping_trouble():
                raw[name] = recording.stop(timeout_s=self.timeout_s)
        workers = dict(opened.unwatch_workers())  # the scheduler passes the question on
        segment = _segment_between(opened.before, after)
        return SegmentRecord(
            replace(segment, scale=self._scale, client=client, workers=workers), raw
        )

    def _settle(self) -> None:
        """Wait until the scheduler has finished earlier work, if a backend would measure it."""
        if any(backend.disturbs for backend in self._taking_part):
            self.control.call(facts.settle, STEADY_S, SETTLING_S)

    def _abandon(self, opened: _Open) -> None:
        if opened.is_window_asked:
            with self._keeping_trouble():
                self.control.call(facts.close_window)
        for recording in reversed(opened.recordings.values()):
            with self._keeping_trouble():
                recording.abandon(timeout_s=self.timeout_s)

    def _end_here(self, opened: _Open) -> None:
        """End what is left of recordings in this process: the scheduler was lost, for example."""
        for recording in opened.recordings.values():
            with self._keeping_trouble():
                getattr(recording, "end_here", lambda: None)()  # few recordings have it

    @contextmanager
    def _unless_interrupted(self, opened: _Open) -> Iterator[None]:
        """End all recordings if a Ctrl-C or a test's timeout interrupts a start or a stop."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self._end_here(opened)
            if opened.is_recording_asked:
                with self._keeping_trouble():
                    self.control.call(recordings.end_all, self.control.client_id)
            raise

    def _death(self, patience_s: float) -> str | None:
        """Return how the scheduler died; asking may fail too, as where Docker has to be asked."""
        try:
            return self.death(patience_s)
        except Exception as error:
            return str(as_own(error)).removeprefix("schedprof: ")

    def _explained(self, error: SchedulerLostError) -> SchedulerLostError:
        """Return the error that says how the scheduler died, if that is known."""
        death = self._death(DEATH_PATIENCE_S)
        return SchedulerLostError(f"schedprof: {death}") if death else error

    @contextmanager
    def _keeping_trouble(self) -> Iterator[None]:
        """Append errors to `errors` instead of raising them."""
        try:
            yield
        except SchedulerLostError as error:
            self.errors.append(self._explained(error))
        except Exception as error:
            # A third party's backend may raise anything, and the test is not to blame.
            self.errors.append(as_own(error))
