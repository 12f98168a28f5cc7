"""Samples the scheduler's main thread by CPU time, into the ring."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from time import thread_time
from types import CodeType, FrameType

from pytest_schedprof.agent.cputime import late_tick
from pytest_schedprof.blackbox.counting import WRAPPER
from pytest_schedprof.blackbox.slices import MOST_FRAMES, Ring
from pytest_schedprof.blackbox.stalls import RUN_ONCE, Stalls, handle_in

Told = Callable[[float, CodeType | None, float], None]
"""Is called with the CPU time at which a stall began, its function, and its CPU seconds so far."""

LEAST = 2
"""Intervals of sampling from which on a callback counts as a stall."""


class Sampler:
    """A timer on the process's CPU time, whose signal is handled in the main thread."""

    def __init__(self, ring: Ring, rate: float, told: Told) -> None:
        self.ring, self.told, self.interval = ring, told, 1 / rate
        self.stalls = Stalls(self.interval, 0.0)
        self.last = 0.0
        self.is_begun = False
        self.problem = ""
        """Why there are no samples any more."""
        self.handler = self.tick  # one object, by which it is known again

    def begin(self) -> str:
        """Start the timer; return why that is not possible, else an empty text."""
        if threading.current_thread() is not threading.main_thread():
            return "the scheduler's event loop is not in the main thread"
        if not hasattr(signal, "setitimer"):
            return "this system has no timer of CPU time"
        if signal.getitimer(signal.ITIMER_PROF) != (0.0, 0.0) or _is_taken():
            return "another profiler uses the signal SIGPROF"
        self.is_begun, self.last = True, thread_time()
        self.stalls = Stalls(self.interval, self.last)
        signal.signal(signal.SIGPROF, self.handler)
        signal.siginterrupt(signal.SIGPROF, False)  # system calls are restarted
        signal.setitimer(signal.ITIMER_PROF, self.interval, self.interval)
        return ""

    def check(self) -> str:
        """Return why there are no samples any more, if so."""
        if not self.problem and not self._is_ours():
            self.problem = "another profiler has taken the signal SIGPROF"
        return self.problem

    def end(self) -> None:
        """Stop the timer, unless somebody else has taken it."""
        if self.is_begun and self._is_ours():
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, late_tick)

    def _is_ours(self) -> bool:
        return signal.getsignal(signal.SIGPROF) is self.handler

    def tick(self, number: int, frame: FrameType | None) -> None:
        """Take a sample; the scheduler's code is interrupted by this, so nothing may be raised.

        Other threads let the timer run, too: without CPU time of the main thread there is none.
        """
        try:
            cpu = thread_time()
            if cpu - self.last >= self.interval / 2:
                self.last = cpu
                self._take(frame, cpu)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _take(self, frame: FrameType | None, cpu: float) -> None:
        frames: list[tuple[CodeType, int]] = []
        handle, depth = None, 0
        while frame is not None:
            code = frame.f_code
            if code is RUN_ONCE:
                handle, depth = handle_in(frame), len(frames)
            if code is not WRAPPER and len(frames) < MOST_FRAMES:
                frames.append((code, frame.f_lineno or code.co_firstlineno))
            frame = frame.f_back
        self.ring.current.add(frames, cpu)
        self._look([code for code, _ in reversed(frames[:depth])], handle, cpu)

    def _look(self, inside: list[CodeType], handle: object, cpu: float) -> None:
        """Look whether the callback at work is a stall."""
        stalls = self.stalls
        took = stalls.see(handle, inside, cpu)
        if took >= LEAST * self.interval:
            self.ring.current.note_stall(stalls.code, took, stalls.seconds)
            self.told(stalls.since, stalls.code, took)


def _is_taken() -> bool:
    """Whether somebody handles the signal; our own handler of late ticks does nothing."""
    handler = signal.getsignal(signal.SIGPROF)
    return callable(handler) and getattr(handler, "__name__", "") != late_tick.__name__
