"""Main program of a scheduler's or workers' process.

Reads one JSON line that says what to run, answers with one that says what runs, and ends
when its standard input closes. So it outlives neither the test session nor a SIGKILL of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

GRACE_S = 5.0


def main() -> None:
    """Serve as told until the parent is gone."""
    os.environ.setdefault("DASK_DISTRIBUTED__ADMIN__LOG_LENGTH", "1000")
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what user code prints goes to the log, not into the answer
    import distributed  # noqa: F401  (while the parent gets the scheduler ready)

    with os.fdopen(0, "rb", buffering=0, closefd=False) as order:
        spec = json.loads(order.readline() or "null")
    if spec is None:
        return
    sys.path[:] = spec["sys_path"]
    asyncio.run(_serve(spec, answer))


async def _serve(spec: dict[str, Any], answer: Any) -> None:
    from distributed import Scheduler, Worker

    if spec["role"] == "scheduler":
        nodes: list[Any] = [Scheduler(**spec["options"])]
    else:
        nodes = [Worker(**spec["options"], name=f"{i}") for i in range(spec["count"])]
    parent_gone = _watch_parent()
    await asyncio.gather(*nodes)
    print(json.dumps([node.address for node in nodes]), file=answer, flush=True)
    finished = [asyncio.ensure_future(node.finished()) for node in nodes]
    await asyncio.wait([parent_gone, *finished], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*(node.close() for node in nodes), return_exceptions=True)


def _watch_parent() -> asyncio.Future[None]:
    """A future that is cancelled when the parent closed its end, also by dying.

    A thread, because a loop that hangs would never see it: after a grace period the
    process ends the hard way.
    """
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()

    def wait() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(gone.cancel)
        threading.Event().wait(GRACE_S)
        os._exit(1)

    threading.Thread(target=wait, name="schedprof-parent", daemon=True).start()
    return gone
