"""Work that arrives at a rate of its own, whether the scheduler keeps up or not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from time import perf_counter

MOST_WAITING = 64
"""Graphs that may be under way at once."""

HOPELESS = 0.5
"""No graph follows once one has waited for so large a part of the time in which they arrive: the
scheduler has fallen behind for good."""


class OpenLoop:
    """Runs a piece of work again and again at fixed times, each in a thread of its own."""

    def __init__(self, run: Callable[[], None], every_s: float, times: int) -> None:
        self.run, self.every_s, self.times = run, every_s, times
        self.sent: list[tuple[float, Future[None]]] = []
        """When each was sent, and what becomes of it."""

    def drive(self) -> float:
        """Send all, wait until they are done; return by how much the last one was late.

        That is later than if the last one had been sent when it was due and had taken no longer
        than the time between two.
        """
        begun = perf_counter()
        with ThreadPoolExecutor(MOST_WAITING, "schedprof-arrivals") as threads:
            for number in range(self.times):
                _sleep_until(begun + number * self.every_s)
                if self._is_hopeless():
                    break
                self.sent.append((perf_counter(), threads.submit(self.run)))
        for _, each in self.sent:
            each.result()
        return max(0.0, perf_counter() - begun - self.times * self.every_s)

    @property
    def are_all_sent(self) -> bool:
        """Whether none was left out because others had waited for too long."""
        return len(self.sent) == self.times

    def _is_hopeless(self) -> bool:
        waiting = [at for at, each in self.sent if not each.done()]
        patience = HOPELESS * self.every_s * self.times
        return len(waiting) >= MOST_WAITING or (
            bool(waiting) and perf_counter() - min(waiting) > patience
        )


def _sleep_until(due: float) -> None:
    left = due - perf_counter()
    if left > 0:
        Event().wait(left)
