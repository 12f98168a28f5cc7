"""Finds out whether a thread is blocked in a lock that does not announce it to the conductor.

A bare `threading.Lock` and `queue.SimpleQueue` wait in C, where nothing can be patched. Linux shows
the system call that a thread is in, and how often it has slept. A thread that is in the same sleep
as before has not been woken, however busy the machine is.
"""

from __future__ import annotations

import _thread
import os
import platform
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from math import inf
from operator import attrgetter, itemgetter
from types import CodeType
from typing import Any, NamedTuple

from pytest_schedprof.agent.guard import state

FUTEX = {"x86_64": "202", "aarch64": "98", "riscv64": "98", "ppc64le": "221", "s390x": "238"}
"""Number of the system call in which a thread waits for another one, by machine."""

PATIENCE_S = 0.5
"""Real time after which a thread that stays in one lock is taken to wait for the cluster."""

MOST_CPU = 0.1
"""Part of a core that this process uses meanwhile; with more, a library computes in threads."""

TASKS = "/proc/self/task"

RUNNING = ("R", "D")
"""States of a thread that runs, waits for a core, or waits for a disk."""

WAITS: list[Any] = [threading.Condition.wait, threading.Thread.join]
WAITS += filter(None, [getattr(threading.Thread, "_wait_for_tstate_lock", None)])  # until 3.12
CODE_OF_WAITS = frozenset[CodeType](wait.__code__ for wait in WAITS)


class Place(NamedTuple):
    """Where a thread is."""

    code: CodeType
    instruction: int
    globals: dict[str, Any]

    def announces_itself(self) -> bool:
        """Whether its function itself announces the wait of the test's thread to the conductor."""
        module = str(self.globals.get("__name__"))
        return self.code in CODE_OF_WAITS or module.startswith("pytest_schedprof.")


def place_of(thread: int) -> Place:
    """Return where a thread is.

    No frame outlives the single call of `next`. If this thread held one while its function returns,
    the function's variables would be released here. Of the client's bytecodes only those of the
    test's thread are counted, so it would be chance whether those of the release are.
    """
    frames = iter(sys._current_frames, None)
    of_frame = attrgetter("f_code", "f_lasti", "f_globals")
    return Place(*next(map(of_frame, map(itemgetter(thread), frames))))


class Sleep:
    """One sleep of a thread in a lock, identified by the number of those before it."""

    def __init__(self, thread: int, number: str) -> None:
        self._thread = thread
        self._number = number
        self.begun, self._cpu_s = time.monotonic(), time.process_time()

    def lasts(self) -> bool:
        """Whether nobody has woken the thread since."""
        return _sleep_of(self._thread) == self._number

    def is_long(self, patience_s: float) -> bool:
        """Whether it takes this much real time already, and nothing else works in this process."""
        seconds = time.monotonic() - self.begun
        is_idle = time.process_time() - self._cpu_s <= MOST_CPU * seconds
        return seconds >= patience_s and is_idle and not _others_run()


class Watch:
    """Finds out whether one thread stays in a lock."""

    def __init__(self, announces: Callable[[Place], bool] = lambda place: False) -> None:
        """Watch the calling thread.

        Args:
            announces: whether the function at a place announces itself that the thread waits.
        """
        self._announces = announces
        self._ident = threading.get_ident()
        is_shown = sys.platform == "linux" and platform.machine() in FUTEX
        self._thread = threading.get_native_id() if is_shown else None
        """Number of the thread in the system, if that shows what the thread waits for."""
        self._sleep: Sleep | None = None
        self._places: set[tuple[object, int]] = set()
        """Where it waited for the cluster before: there it needs no patience the next time."""

    def find(self) -> Callable[[], bool] | None:
        """If the thread is blocked, return a function that tells whether it still is."""
        if self._thread is None:
            return None
        try:
            place = place_of(self._ident)
        except KeyError:  # it has ended
            return None
        if self._announces(place):
            return None
        if self._sleep is None or not self._sleep.lasts():
            number = _sleep_of(self._thread)
            self._sleep = Sleep(self._thread, number) if number else None
            return None
        if not self._sleep.is_long(0.0 if place[:2] in self._places else PATIENCE_S):
            return None
        self._places.add(place[:2])
        return self._sleep.lasts


def _others_run() -> bool:
    """Whether another thread of this process could run now, and so may release the lock soon.

    On a busy machine it may wait for a core.
    """
    me = threading.get_native_id()
    return any(state(int(name)) in RUNNING for name in os.listdir(TASKS) if name != str(me))


def _sleep_of(thread: int) -> str:
    """Return the number of a thread's sleep in a lock, or nothing if it is in none."""
    try:
        with open(f"{TASKS}/{thread}/status") as status:
            number = next(line for line in status if line.startswith("voluntary_ctxt_switches"))
        with open(f"{TASKS}/{thread}/syscall") as call:
            is_in_lock = call.readline().partition(" ")[0] == FUTEX[platform.machine()]
    except (OSError, StopIteration):
        return ""
    return number if is_in_lock else ""


SIGNAL: int | None = getattr(signal, "SIGURG", None)
"""Wakes the test's thread. No other code uses it, and without a handler it has no effect."""


def listen(call: Callable[[], None]) -> ExitStack:
    """Let `interrupt` call a function in the test's thread, where it may raise.

    Only the main thread handles signals. Closing the stack that is returned undoes it.
    """
    undo = ExitStack()
    if SIGNAL is not None and threading.current_thread() is threading.main_thread():
        before = signal.signal(SIGNAL, lambda number, frame: call())
        undo.callback(signal.signal, SIGNAL, before)
    return undo


def interrupt(ident: int) -> Callable[[], None] | None:
    """Return a function that wakes a thread from its lock, or None if it cannot be woken."""
    if SIGNAL is None or ident != threading.main_thread().ident:
        return None
    return partial(signal.pthread_kill, ident, SIGNAL)


class Waiter:
    """A lock that remembers that it was released.

    A thread that waits takes a plain lock when it wakes, and the lock then looks as if the thread
    still waited; since Python 3.14 it is handed over, and never looks free. If another thread gave
    the turn away in that moment, time would go on before the test did.
    """

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._is_released = False

    def release(self) -> None:
        """Wake the thread that waits."""
        self._is_released = True
        self._lock.release()

    def acquire(self, timeout_s: float = -1) -> bool:
        """Wait until it is released, or for a time; return whether it was released."""
        return self._lock.acquire(timeout=timeout_s)

    def locked(self) -> bool:
        return not self._is_released


class Job:
    """A function that a loop gave to a pool of threads."""

    def __init__(self, pool: Any) -> None:
        """Begin.

        Args:
            pool: an executor, or the loop whose own it is.
        """
        self.pool = pool
        self.watch: Watch | None = None
        """Of its thread, once it has one."""
        self.is_waiting = False
        """Whether it waits for a client."""


def _size_of(pool: Any) -> float:
    """Return how many jobs a pool does at a time, if it tells."""
    size: float = getattr(getattr(pool, "_default_executor", pool), "_max_workers", inf)
    return size


class Jobs:
    """Work of threads for event loops, during which the clock stands still."""

    def __init__(self) -> None:
        self._all: set[Job] = set()
        self._by_thread: dict[int, Job] = {}

    def add(self, pool: Any) -> Job:
        """Return a job that is to begin when the pool has a thread for it."""
        job = Job(pool)
        self._all.add(job)
        return job

    def begin(self, job: Job, watch: Watch) -> bool:
        """Let a job have this thread; return whether anybody waits for it still."""
        if job not in self._all:
            return False
        job.watch = watch
        # If a loop that has this thread for a job does another one at once, that is part of it.
        self._by_thread.setdefault(threading.get_ident(), job)
        return True

    def remove(self, job: Job) -> None:
        """Forget a job that has ended in this thread, or never begins."""
        self._all.discard(job)
        if self.current() is job:
            del self._by_thread[threading.get_ident()]

    def current(self) -> Job | None:
        """Return the job of this thread, if it has one."""
        return self._by_thread.get(threading.get_ident())

    def are_busy(self) -> bool:
        """Whether a job works, and is not blocked in a lock, or is about to begin.

        It is not while others that wait or are blocked have all threads of its pool.
        """
        if not self._all:
            return False
        started = [(job, job.watch) for job in self._all if job.watch is not None]
        blocked = [watch.find() for job, watch in started if not job.is_waiting]
        occupied = Counter(job.pool for job, _ in started)
        return None in blocked or any(
            job.watch is None and occupied[job.pool] < _size_of(job.pool) for job in self._all
        )
