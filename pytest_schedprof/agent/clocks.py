"""Clocks of CPU time, which send the signal SIGPROF to the main thread when a sample is due."""

from __future__ import annotations

import os
import signal

from .perf_events import (
    DISABLE,
    REFRESH,
    control,
    cpu_clock,
    is_known_here,
    open_counter,
    send_signals,
)

SHORTEST = 0.0005
"""Seconds between two ticks at least: a handler must be over long before the next one."""

REMEDY = "; with kernel.perf_event_paranoid=1 or CAP_PERFMON it has a finer one"
"""How this process may use the kernel's clock."""


class TimerClock:
    """The process's timer: the kernel looks at it with its ticks, 100 to 1000 times a second."""

    def __init__(self, interval: float, remedy: str = "") -> None:
        self.interval = interval
        self.remedy = remedy

    def start(self) -> None:
        """Start the timer."""
        signal.setitimer(signal.ITIMER_PROF, 0.001, self.interval)

    def go_on(self) -> None:
        """Do nothing: the timer does not stop at a tick."""

    def stop(self) -> None:
        """Stop the timer."""
        signal.setitimer(signal.ITIMER_PROF, 0)


class KernelClock:
    """The kernel's own clock of this thread's CPU time, which has ticks of any length.

    It stops at each tick until it is told to go on. Otherwise a handler that takes as long as an
    interval, as with a deep stack, would leave no time for anything else.
    """

    remedy = ""

    def __init__(self, interval: float) -> None:
        """Open the clock.

        Raises:
            OSError: if the kernel lends none.
        """
        self.descriptor = open_counter(cpu_clock(max(interval, SHORTEST)))
        send_signals(self.descriptor, signal.SIGPROF)

    def start(self) -> None:
        """Let the clock run."""
        self.go_on()

    def go_on(self) -> None:
        """Let the clock run for another interval."""
        control(self.descriptor, REFRESH, 1)

    def stop(self) -> None:
        """Stop the clock too: a child that was forked meanwhile has it open."""
        control(self.descriptor, DISABLE)
        os.close(self.descriptor)


def finest_clock(interval: float) -> TimerClock | KernelClock:
    """Return the kernel's clock where this process may use it, else the timer."""
    try:
        return KernelClock(interval) if is_known_here() else TimerClock(interval)
    except OSError:
        return TimerClock(interval, REMEDY)
