"""The lock in which the test's thread waits, which tells whether somebody has released it."""

from __future__ import annotations

import _thread


class Waiter:
    """A lock that is held from the start, until somebody else releases it.

    `locked()` of the lock itself does not tell: it is true again as soon as the waiting thread has
    the lock, and since Python 3.14 all the time, as a lock is handed over to who has waited long.
    """

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._is_released = False

    def is_held(self) -> bool:
        """Whether nobody has released it yet."""
        return not self._is_released

    def release(self) -> None:
        """Let the thread go on that waits."""
        self._is_released = True
        self._lock.release()

    def acquire(self, timeout: float) -> bool:
        """Wait so many seconds, for ever if it is -1; return whether it was released."""
        return self._lock.acquire(True, timeout)
