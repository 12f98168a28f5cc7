"""Main program of a scheduler's or workers' process.

Reads one JSON line that says what to run, answers with one that says what runs, and ends
when its standard input closes. So it outlives neither the test session nor a SIGKILL of it,
and removes the cluster's directory when nobody else is left to do it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
from contextlib import suppress
from typing import Any

GRACE_S = 5.0


def main() -> None:
    """Serve as told until the parent is gone."""
    directory = sys.argv[1]
    os.environ.setdefault("DASK_DISTRIBUTED__ADMIN__LOG_LENGTH", "1000")
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # what user code prints goes to the log, not into the answer
        from pytest_schedprof.clusters import nodes  # while the parent gets the scheduler ready

        with os.fdopen(0, "rb", buffering=0, closefd=False) as order:
            spec = json.loads(order.readline() or "null")
        if spec is None:
            return _remove(directory)
        _allow_descriptors()
        # Only now: a file beside the tests may have the name of a module that distributed needs.
        sys.path[:] = _path(spec)

        is_left = threading.Event()

        async def serve() -> None:
            await nodes.serve(spec, answer, _watch_parent(directory, is_left))

        try:
            asyncio.run(serve())  # breaks where the parent is gone before it has its answer
        finally:
            if is_left.wait(0.1):  # the thread that reads its end may be a moment behind
                _remove(directory)


def _path(spec: dict[str, Any]) -> list[str]:
    """The session's; of another interpreter its own too, before what the session has installed."""
    if "sys_path" in spec:
        return list(spec["sys_path"])
    theirs = spec["paths"]
    sites = theirs["sites"] if spec["python"] == list(sys.version_info[:2]) else []
    return list(dict.fromkeys([*theirs["tests"], *sys.path, *theirs["beside"], *sites]))


def _allow_descriptors() -> None:
    """As many as the system allows: a scheduler has one for each worker."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS calls it unlimited, and takes no such number
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _remove(directory: str) -> None:
    """Each process of the cluster does so: the last one leaves nothing behind."""
    shutil.rmtree(directory, ignore_errors=True)


def _watch_parent(directory: str, is_left: threading.Event) -> asyncio.Future[None]:
    """A future that is cancelled when the parent closed its end, also by dying.

    A thread, because a loop that hangs would never see it: after a grace period the
    process ends the hard way.
    """
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()

    def wait() -> None:
        while os.read(0, 4096):
            pass
        is_left.set()
        loop.call_soon_threadsafe(gone.cancel)
        threading.Event().wait(GRACE_S)
        _remove(directory)
        os._exit(1)

    threading.Thread(target=wait, name="schedprof-parent", daemon=True).start()
    return gone
