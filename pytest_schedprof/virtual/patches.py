"""What is patched in the test's process while it has a virtual cluster.

The test's thread announces that it waits, clients announce where they connect, and both read the
cluster's time and draw its random names (`choices`). Nothing changes for other threads.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import wraps
from typing import Any

from distributed import Client, Future, utils
from distributed import client as client_module

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.virtual.blocked import Waiter, listen
from pytest_schedprof.virtual.choices import replacements_of_chance
from pytest_schedprof.virtual.conductor import REAL_WAIT, Conductor
from pytest_schedprof.virtual.loop import EPOCH, AtOnce, replace_clocks

PATIENCE_S = 0.05
"""Real time after which a test that waits for something unknown is taken to wait for the
cluster."""

POLL_S = 0.001
"""Virtual time that passes when a test asks whether a task is done."""

FULL_S = 10.0
"""Full times are multiples of this. The scheduler's periodic work, such as balancing every 0.1 s,
is at the same point at all of them."""

_CONDUCTORS: dict[str, Conductor] = {}
"""The conductor of each virtual cluster, by the address of its scheduler."""

_CURRENT: list[Conductor] = []
"""The conductor whose cluster the test used last, if any."""

_UNDO = ExitStack()


def conduct(address: str, conductor: Conductor) -> None:
    """Let a conductor govern the clients of a scheduler."""
    if not _CONDUCTORS:
        _install()
    _CONDUCTORS[address] = conductor
    _CURRENT[:] = [conductor]


def dismiss(address: str) -> None:
    """Govern the clients of a scheduler no longer; the last one undoes all patches."""
    conductor = _CONDUCTORS.pop(address, None)
    if conductor in _CURRENT:
        _CURRENT.clear()
    if conductor is not None:
        conductor.let_go()
    if conductor is not None and not _CONDUCTORS:
        _UNDO.close()


def move_on(address: str, offset: float = 0.0) -> None:
    """Let the test use this cluster from now on, and move its clock past the next full time."""
    conductor = _CONDUCTORS[address]
    if not conductor.is_gone:
        _CURRENT[:] = [conductor]
        gc.collect()  # otherwise futures of an earlier round may be released in this one
        conductor.sleep(FULL_S - (conductor.now - EPOCH - offset) % FULL_S)


def _governor() -> Conductor | None:
    """Return the conductor that governs the calling thread, if any."""
    thread = threading.get_ident()
    return next((conductor for conductor in _CURRENT if conductor.governs(thread)), None)


def _of_test() -> Conductor | None:
    """Return the conductor of the calling thread if that is the test's."""
    conductor = _governor()
    return conductor if conductor and conductor.body == threading.get_ident() else None


def _wait(self: Any, timeout: float | None = None) -> bool:
    """Replace `threading.Condition.wait`: announce the wait of the test's thread."""
    conductor = _of_test()
    if conductor is None or self is conductor.changed:
        return bool(REAL_WAIT(self, timeout))
    if not conductor.is_syncing and _is_starting_thread():
        return bool(REAL_WAIT(self, timeout))
    caller = sys._getframe(1).f_globals.get("__name__")
    patience_s = None
    if not (conductor.is_syncing or caller == "distributed.client"):
        # It may wait for a thread that starts, or for a lock. Until then the clock stands still.
        patience_s = PATIENCE_S if timeout is None else max(0.0, min(timeout, PATIENCE_S))
    return _wait_in_turn(self, timeout, patience_s, conductor)


REAL_JOIN = threading.Thread.join


def _join(self: threading.Thread, timeout: float | None = None) -> None:
    """Replace `threading.Thread.join`: the other thread may wait for the cluster."""
    caller = str(sys._getframe(1).f_globals.get("__name__"))
    # Those of distributed are event loops that end by themselves.
    if _of_test() is None or caller.startswith("distributed."):
        return REAL_JOIN(self, timeout)
    limit_s = PATIENCE_S if timeout is None else min(timeout, PATIENCE_S)
    REAL_JOIN(self, limit_s)
    left_s = None if timeout is None else timeout - limit_s
    if not self.is_alive() or (left_s is not None and left_s <= 0):
        return None
    _ending_of(self).wait(left_s)
    return None


def _ending_of(thread: threading.Thread) -> threading.Event:
    """Return an event that is set when a thread has ended, for which the test can wait in turn."""
    has_ended = threading.Event()

    def watch() -> None:
        REAL_JOIN(thread)
        has_ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return has_ended


STARTING = (
    threading.Thread.start.__code__,
    utils.LoopRunner._start_unlocked.__code__,
)
"""Code that waits for a thread to start, which may take long on a busy machine."""


def _is_starting_thread() -> bool:
    """Whether the calling thread waits for an event that another one sets when it starts."""
    waiting = sys._getframe(2).f_back  # the caller of `Event.wait`, which called `_wait`
    return waiting is not None and waiting.f_code in STARTING


def _wait_in_turn(
    condition: Any, timeout: float | None, patience_s: float | None, conductor: Conductor
) -> bool:
    """Wait as `Condition.wait` does; its lock must be free before the loops go on.

    Args:
        patience_s: how long the turn is kept before, if it is. Who waits stays in the list of the
            condition all the time: else it would miss a notice that comes just then.
    """
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    waiter = Waiter()
    condition._waiters.append(waiter)
    saved = condition._release_save()
    is_notified = is_over = False
    try:
        is_notified = patience_s is not None and waiter.acquire(patience_s)
        if timeout is not None and patience_s is not None:
            timeout -= patience_s
            is_over = timeout <= 0
        if not (is_notified or is_over):
            # A patient `sync` polls.
            timeout = None if conductor.is_patient else timeout
            is_notified = conductor.wait(waiter, timeout, is_virtual=conductor.is_syncing)
    finally:
        condition._acquire_restore(saved)
        if not is_notified and waiter in condition._waiters:
            condition._waiters.remove(waiter)
    return is_notified


_REAL_SLEEP = time.sleep


def _sleep(seconds: float) -> None:
    """Replace `time.sleep`: a test sleeps in virtual time unless it stops its own event loop."""
    conductor = None if _is_in_coroutine() else _of_test()
    caller = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
    is_ours = caller in sys.stdlib_module_names or caller == "pytest_schedprof"
    if conductor is None or is_ours or seconds < 0:  # which is an error
        _REAL_SLEEP(seconds)
    else:
        conductor.sleep(seconds)


_REAL_CONNECT: Any = Client._ensure_connected


async def _ensure_connected(self: Any, timeout: Any = None) -> None:
    """Connect a client, and govern its loop from now on."""
    conductor = _CONDUCTORS.get(getattr(self.scheduler, "address", ""))
    if conductor is not None and self.status != "closed":
        conductor.adopt(self)
    await _REAL_CONNECT(self, timeout)


def _by_the_scheduler(method: Any) -> Any:
    """Return a method that asks the scheduler even with `direct=True`: workers have no sockets."""

    @wraps(method)
    async def ask(self: Any, *args: Any, **keywords: Any) -> Any:
        if getattr(self.scheduler, "address", "") in _CONDUCTORS:
            keywords["direct"] = False
        return await method(self, *args, **keywords)

    return ask


_REAL_SYNC: Any = utils.sync


def _sync(loop: Any, function: Any, *args: Any, **keywords: Any) -> Any:
    """Replace `sync`: the test waits for the cluster of the client."""
    conductor = _conductor_for(loop, function)
    if conductor is not None and threading.get_ident() != conductor.body:
        with conductor.job_waiting():
            return _REAL_SYNC(loop, function, *args, **keywords)
    if conductor is not None:
        _CURRENT[:] = [conductor]
        if conductor.is_polling():
            conductor.sleep(POLL_S)
        is_new = not conductor.has(loop.asyncio_loop)
        is_patient = keywords.get("callback_timeout") is None
        with conductor.syncing(is_patient=is_patient, is_expecting=is_new):
            return _REAL_SYNC(loop, function, *args, **keywords)
    return _REAL_SYNC(loop, function, *args, **keywords)


def _conductor_for(loop: Any, function: Any) -> Conductor | None:
    """Return the conductor of a loop, or of a client that is about to connect on it."""
    for conductor in _CONDUCTORS.values():
        if conductor.has(loop.asyncio_loop):
            return conductor
    client = getattr(function, "__self__", None)
    return _CONDUCTORS.get(str(getattr(client, "_start_arg", "")))


_REAL_DONE: Any = Future.done
_REAL_STATUS: Any = Future.status.fget  # type: ignore[attr-defined]


def _done(self: Any) -> bool:
    """Return whether a task is done; if not, let time pass, because the test may poll."""
    if not _REAL_DONE(self):
        _let_time_pass()
    return bool(_REAL_DONE(self))


def _get_status(self: Any) -> Any:
    """Return the state of a task; if it is pending, let time pass, because the test may poll."""
    if _REAL_STATUS(self) == "pending":
        _let_time_pass()
    return _REAL_STATUS(self)


def _let_time_pass() -> None:
    if (conductor := _of_test()) is not None and not _is_in_coroutine():
        conductor.sleep(POLL_S)


def _is_in_coroutine() -> bool:
    """Whether the calling thread runs an event loop, which a wait of the thread would stop."""
    return asyncio._get_running_loop() is not None


class _Offloading(Executor):
    """Runs at once what a governed thread submits, and in threads what others submit."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads

    def submit(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        executor = self._threads if _governor() is None else AtOnce()
        return executor.submit(function, *args, **keywords)


_REAL_TIME = time.time


def _reading() -> float:
    """Return the virtual time in governed threads, and the real time in others."""
    conductor = _governor()
    return _REAL_TIME() if conductor is None else conductor.now


def _install() -> None:
    replacements: list[tuple[Any, str, Any]] = [
        (threading.Condition, "wait", _wait),
        (threading.Thread, "join", _join),
        (time, "sleep", _sleep),
        (Client, "_ensure_connected", _ensure_connected),
        (Client, "_gather", _by_the_scheduler(Client._gather)),
        (Client, "_scatter", _by_the_scheduler(Client._scatter)),
        (Future, "done", _done),
        (Future, "status", property(_get_status)),
        (utils, "sync", _sync),
        (client_module, "sync", _sync),
        (utils, "_offload_executor", _Offloading(utils._offload_executor)),
        *replacements_of_chance(_governor),
    ]
    for owner, name, replacement in replacements:
        replace(owner, name, replacement, _UNDO)
    _UNDO.push(replace_clocks(_reading))
    _UNDO.push(listen(_end_blocking))


def _end_blocking() -> None:
    for conductor in _CURRENT:
        conductor.end_blocking()
