"""Main program of a scheduler's or workers' process.

Reads one JSON line that says what to run, answers with one that says what runs, and ends when
another line comes, its standard input closes, or its parent dies. So it ends with the test session,
also if that is killed, and then removes the cluster's directory. A question mark it answers: so the
session knows that its interpreter does not stand still (`Watch` in child.py).
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import json
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

GRACE_S = 5.0

OPEN_MAX = 10240
"""Most open files that macOS accepts as a limit of a process."""

QUESTION, SIGN = b"?", b"!"
"""What the session asks, and how a process says that its interpreter runs."""

TELL_PLACE = getattr(signal, "SIGURG", None)
"""Lets a process write to its log where its first thread is, also while that has the interpreter's
lock. Nobody else uses it, and it does no harm where nobody listens."""


def readable(descriptors: Iterable[int], timeout_s: float | None = None) -> set[int]:
    """Wait until some can be read or have ended; `select` refuses descriptors from 1024 on."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    milliseconds = None if timeout_s is None else max(0.0, timeout_s * 1000)
    return {descriptor for descriptor, _ in poll.poll(milliseconds)}


def main() -> None:
    """Serve as told until the parent is gone, and end."""
    _serve(sys.argv[1])
    leave_at_once()


def leave_at_once() -> None:
    """End this process after its threads and what was registered for its end.

    Interpreters also take all imported modules apart. That takes longer than all else that a small
    cluster does, because a forked process then copies the memory that it shares with its server.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # `multiprocessing` calls it too
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # its other end is closed, or this one
                stream.flush()
    finally:
        os._exit(0)


def _serve(directory: str) -> None:
    if TELL_PLACE is not None:
        faulthandler.register(TELL_PLACE, file=2, all_threads=False)
    signs = os.dup(1)
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # output of user code goes to the log, not into the answer
        from pytest_schedprof.clusters import nodes  # import while the parent tells what to run

        with os.fdopen(0, "rb", buffering=0, closefd=False) as order:
            spec = json.loads(order.readline().strip() or "null")
        if spec is None:
            return _remove(directory)
        _allow_descriptors()
        # Only now: a file beside the tests may have the name of a module that distributed imports.
        sys.path[:] = _path(spec)

        is_left = threading.Event()

        async def serve() -> None:
            await nodes.serve(spec, answer, _watch_parent(directory, is_left, signs))

        try:
            nodes.run(spec, serve())  # raises if the parent is gone before it has its answer
        finally:
            if is_left.wait(0.1):  # the thread that watches the parent may be slower
                _remove(directory)


def _path(spec: dict[str, Any]) -> list[str]:
    """Return `sys.path`: the session's, merged with its own if this is another interpreter."""
    if "sys_path" in spec:
        return list(spec["sys_path"])
    paths = spec["paths"]
    sites = paths["sites"] if spec["python"] == list(sys.version_info[:2]) else []
    return list(dict.fromkeys([*paths["tests"], *sys.path, *paths["beside"], *sites]))


def _allow_descriptors() -> None:
    """Raise the limit of open files as far as allowed: a scheduler has one for each worker."""
    import resource  # not at the top: Windows lacks it, where this module is imported too

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS reports an unlimited number, which it does not accept.
    for number in (most, max(now, OPEN_MAX)):
        with suppress(ValueError, OSError):
            return resource.setrlimit(resource.RLIMIT_NOFILE, (number, most))


def _remove(directory: str) -> None:
    """Remove the cluster's directory; each process does so when it ends.

    An interpreter that names its functions for profilers leaves the names in a file of its own.
    """
    with suppress(OSError):
        os.remove(f"/tmp/perf-{os.getpid()}.map")
    shutil.rmtree(directory, ignore_errors=True)


def _watch_parent(directory: str, is_left: threading.Event, signs: int) -> asyncio.Future[None]:
    """A future that is cancelled when the parent wrote another line, closed its end or died.

    The parent's end stays open after its death if a process that it forked has it too, so the
    parent's process is watched as well. A thread, because a loop that hangs would never see it:
    after a grace period the process ends the hard way.
    """
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()
    waits_for = [0, *_parents_end()]

    def wait() -> None:
        with suppress(OSError):  # nobody reads any longer
            # To answer calls no function of Python: what counts calls may not know this thread.
            while select.select(waits_for, [], [])[0] == [0] and os.read(0, 1) == QUESTION:
                os.write(signs, SIGN)
        is_left.set()
        loop.call_soon_threadsafe(end.cancel)
        threading.Event().wait(GRACE_S)
        _remove(directory)
        os._exit(1)

    threading.Thread(target=wait, name="schedprof-parent", daemon=True).start()
    return end


def _parents_end() -> list[int]:
    """Return a descriptor that can be read when the parent has died, where the system has that.

    Asking for the parent's ID now and then would take the interpreter's lock from the scheduler.
    """
    try:
        return [os.pidfd_open(os.getppid())]
    except (AttributeError, OSError):
        return []
