"""How the processes of clusters end."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress


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
