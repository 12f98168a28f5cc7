"""Tells whether a thread is blocked in a lock of which nobody tells the conductor.

A bare `threading.Lock` and `queue.SimpleQueue` wait in C, where nothing can be patched. Linux tells
of each thread which system call it is in and how often it has slept. A thread that is in the same
sleep as before has not been woken, however busy the machine is.
"""

from __future__ import annotations

import _thread
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import CodeType, FrameType
from typing import Any

FUTEX = {"x86_64": "202", "aarch64": "98", "riscv64": "98", "ppc64le": "221", "s390x": "238"}
"""Number of the system call in which a thread waits for another one, by machine."""

PATIENCE_S = 0.5
"""Real time in which a thread stays in one lock until it is said to wait for the cluster."""

MOST_CPU = 0.1
"""Part of a core that this process uses at most meanwhile; else a library computes in threads."""

TASKS = "/proc/self/task"

RUNNING = ("R", "D")
"""States of a thread that runs, waits for a core, or waits for a disk."""

WAITS: list[Any] = [threading.Condition.wait, threading.Thread.join]
WAITS += filter(None, [getattr(threading.Thread, "_wait_for_tstate_lock", None)])  # until 3.12
CODE_OF_WAITS = frozenset[CodeType](each.__code__ for each in WAITS)


def tells_itself(frame: FrameType) -> bool:
    """Whether a function tells the conductor itself that the test's thread waits."""
    module = str(frame.f_globals.get("__name__"))
    return frame.f_code in CODE_OF_WAITS or module.startswith("pytest_schedprof.")


class Sleep:
    """One sleep of a thread in a lock: which one it is, by the number of those before it."""

    def __init__(self, thread: int, number: str) -> None:
        self._thread = thread
        self._number = number
        self.begun, self._cpu_s = time.monotonic(), time.process_time()

    def lasts(self) -> bool:
        """Whether nobody has woken the thread since."""
        return _sleep_of(self._thread) == self._number

    def is_long(self, patience_s: float) -> bool:
        """Whether it took so much real time, while nothing else in this process did work."""
        seconds = time.monotonic() - self.begun
        is_idle = time.process_time() - self._cpu_s <= MOST_CPU * seconds
        return seconds >= patience_s and is_idle and not _others_run()


class Watch:
    """Watches one thread for a lock in which it stays."""

    def __init__(
        self, ident: int, thread: int | None, is_told: Callable[[FrameType], bool]
    ) -> None:
        """Watch a thread, but for the time that it is in functions which tell by themselves."""
        self._is_told = is_told
        self._ident = ident
        self._thread = thread
        """Number of the thread in the system, if that is known."""
        self._sleep: Sleep | None = None
        self._places: set[tuple[object, int]] = set()
        """Where it was found to wait for the cluster, and is found at once the next time."""

    def find(self) -> Callable[[], bool] | None:
        """Return what says whether the thread is still blocked, None if it is not."""
        if self._thread is None or (place := self._place()) is None:
            return None
        if self._sleep is None or not self._sleep.lasts():
            number = _sleep_of(self._thread)
            self._sleep = Sleep(self._thread, number) if number else None
            return None
        if not self._sleep.is_long(0.0 if place in self._places else PATIENCE_S):
            return None
        self._places.add(place)
        return self._sleep.lasts

    def _place(self) -> tuple[object, int] | None:
        """Return where the thread is, unless it tells by itself that it waits."""
        frame: FrameType | None = sys._current_frames().get(self._ident)
        if frame is None or self._is_told(frame):
            return None
        return frame.f_code, frame.f_lasti


def watch_this_thread(is_told: Callable[[FrameType], bool] = lambda frame: False) -> Watch:
    """Return what watches the calling thread."""
    number = threading.get_native_id() if _can_know() else None
    return Watch(threading.get_ident(), number, is_told)


def _can_know() -> bool:
    """Whether this system tells what a thread waits for."""
    return sys.platform == "linux" and platform.machine() in FUTEX


def _others_run() -> bool:
    """Whether another thread of this process could run now: it may lack a core on a busy machine.

    It may be the one that is about to release the lock.
    """
    me = threading.get_native_id()
    return any(_state_of(name) in RUNNING for name in os.listdir(TASKS) if name != str(me))


def _state_of(thread: str) -> str:
    """Return the letter for the state of a thread; empty if it has ended."""
    try:
        with open(f"{TASKS}/{thread}/stat") as file:
            return file.read().rpartition(") ")[2][:1]
    except OSError:
        return ""


def _sleep_of(thread: int) -> str:
    """Return the number of the sleep in a lock that a thread is in; empty if it is in none."""
    try:
        with open(f"{TASKS}/{thread}/status") as status:
            number = next(line for line in status if line.startswith("voluntary_ctxt_switches"))
        with open(f"{TASKS}/{thread}/syscall") as call:
            is_in_lock = call.readline().partition(" ")[0] == FUTEX[platform.machine()]
    except (OSError, StopIteration):
        return ""
    return number if is_in_lock else ""


SIGNAL: int | None = getattr(signal, "SIGURG", None)
"""Wakes the test's thread. Nobody else uses it, and it does no harm where nobody listens."""


def listen(call: Callable[[], None]) -> ExitStack:
    """Call a function, which may raise, in the test's thread after `interrupt`.

    Only the main thread handles signals. Closing what is returned undoes it.
    """
    undo = ExitStack()
    if SIGNAL is not None and threading.current_thread() is threading.main_thread():
        before = signal.signal(SIGNAL, lambda number, frame: call())
        undo.callback(signal.signal, SIGNAL, before)
    return undo


def interrupt(ident: int) -> Callable[[], None] | None:
    """Return what wakes a thread from the lock in which it is, None if it cannot be woken."""
    if SIGNAL is None or ident != threading.main_thread().ident:
        return None
    return partial(signal.pthread_kill, ident, SIGNAL)


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


class Jobs:
    """While one is at work, the clock stands still."""

    number = 0
    """How many there are, but for those that wait for a client."""

    def __init__(self) -> None:
        self._watches: dict[int, Watch] = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch whether this thread is blocked in a lock."""
        here = threading.get_ident()
        self._watches[here] = watch_this_thread()
        try:
            yield
        finally:
            del self._watches[here]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Leave this thread unwatched while it waits for a client."""
        here = threading.get_ident()
        watch = self._watches.pop(here, None)
        try:
            yield
        finally:
            if watch is not None:
                self._watches[here] = watch

    def are_busy(self) -> bool:
        """Whether one works, and is not blocked in a lock."""
        if self.number <= 0:
            return False
        blocked = sum(each.find() is not None for each in list(self._watches.values()))
        return self.number > blocked
