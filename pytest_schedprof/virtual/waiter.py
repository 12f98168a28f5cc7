"""The lock in which the test's thread waits for somebody to wake it."""

from __future__ import annotations

import _thread


class Waiter:
    """A lock that tells for good that it was released.

    Whoever waits takes a plain lock when it wakes, and the lock then looks as if somebody still
    waited; since Python 3.14 it is handed over, and never looks free. If another thread gave the
    turn away in that moment, time went on before the test did.
    """

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._is_released = False

    def release(self) -> None:
        """Wake who waits."""
        self._is_released = True
        self._lock.release()

    def acquire(self, timeout_s: float = -1) -> bool:
        """Wait until it is released, or for so many seconds; return whether it was."""
        return self._lock.acquire(timeout=timeout_s)

    def locked(self) -> bool:
        """Whether nobody has released it."""
        return not self._is_released
