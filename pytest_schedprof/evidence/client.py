"""CPU time of the client's threads, by the phases that a computation has there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from distributed import Client

from pytest_schedprof.clusters.under_test import IN_BODYS_THREAD
from pytest_schedprof.evidence.stopwatch import Place, Stopwatch

PLACES: Mapping[str, Sequence[Place]] = {
    "optimisation": (
        ("distributed.client", "collections_to_expr"),
        ("distributed.client", "Client.collections_to_dsk"),
        ("dask._expr", "Expr.optimize"),
    ),
    "serialisation": (("distributed.client", "serialize"), ("distributed.protocol", "serialize")),
}
"""Of all releases that are supported."""

HAS_CLOCKS = hasattr(time, "pthread_getcpuclockid")


class ClientWatch:
    """Looks at a client from the begin of each window to its end.

    The thread in which a window begins is taken for the one that constructs graphs, less what it
    optimises and serialises. The client sends in the thread where it has its event loop.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self) -> Callable[[], dict[str, float]]:
        """Begin; what it returns ends it. Of a client that is closed there is nothing to tell."""
        if self._client.status != "running" or not IN_BODYS_THREAD.get():
            return dict
        watch, standing = Stopwatch(PLACES), ExitStack()
        clocks = _clocks(self._client.sync(_thread))
        standing.enter_context(watch.on())
        before = _read(clocks)

        def end() -> dict[str, float]:
            after = _read(clocks)
            standing.close()
            spent = {name: after[name] - before[name] for name in before if name in after}
            return _phases(spent, {name: watch.seconds[name] for name in PLACES})

        return end


def _phases(spent: dict[str, float], timed: Mapping[str, float]) -> dict[str, float]:
    """Of other threads, where the body has any, the stopwatch tells too."""
    if "construction" in spent:
        spent["construction"] = max(0.0, spent["construction"] - sum(timed.values()))
    return {**spent, **timed}


def _clocks(sends: int) -> dict[str, int]:
    """Each thread's, so that a window may end in another one than it began in."""
    if not HAS_CLOCKS:
        return {}
    threads = {"construction": threading.get_ident(), "sending": sends}
    return {name: time.pthread_getcpuclockid(thread) for name, thread in threads.items()}


def _read(clocks: Mapping[str, int]) -> dict[str, float]:
    found = {}
    for name, clock in clocks.items():
        try:
            found[name] = time.clock_gettime(clock)
        except OSError:  # of a thread that has ended
            continue
    return found


async def _thread() -> int:
    return threading.get_ident()
