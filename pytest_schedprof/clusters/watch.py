"""A watch in real time over a process of a cluster, outside of it.

A process that is stopped, or whose interpreter stands still because C code keeps its lock, answers
nobody, and whoever waits for it would wait for ever: in virtual time no time-out is ever due.
"""

from __future__ import annotations

import _thread
import threading

from pytest_schedprof.clusters.child import Child

QUESTIONS = 8
"""How often a process is asked within the time in which it must answer."""

LEAST_S = 5.0
"""A busy machine may not run a process for seconds."""


class Watch:
    """Asks a process for signs of life, and ends it if there are none for too long."""

    def __init__(self, child: Child, patience_s: float) -> None:
        self.patience_s = patience_s
        self._child = child
        # A lock, because tests may replace whatever else waits, and the clocks.
        self._over = _thread.allocate_lock()
        self._over.acquire()
        self._thread = threading.Thread(target=self._watch, name="schedprof-watch", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        """Count the questions without an answer: while this process was stopped, none was asked."""
        unanswered = 0
        try:
            self._child.ask()
            while not self._over.acquire(timeout=max(self.patience_s, LEAST_S) / QUESTIONS):
                unanswered += 1
                if self._child.has_answered():
                    unanswered = 0
                    self._child.ask()
                elif unanswered == QUESTIONS - 1:
                    return self._child.give_up(
                        f"let no thread run for {self.patience_s:g} s of real time"
                    )
        except (OSError, ValueError):
            return  # it has ended, or the test closed its descriptors

    def end(self) -> None:
        """Watch no longer."""
        self._over.release()
        self._thread.join()
