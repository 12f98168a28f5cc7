"""Exit status 0 once the scheduler answers and, in a worker's container, knows that worker.

Asked until it says yes, and then no more: questions put by the clock would be in every profile.
A scheduler or worker that dies ends its container.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

READY = Path("/dev/shm/healthy")
"""Gone when the container is started anew."""


async def check(scheduler: str) -> None:
    """Ask in dask's own protocol, with its own configuration of TLS; Docker ends the wait."""
    from distributed import rpc
    from distributed.security import Security

    here = socket.gethostbyname(socket.gethostname())
    async with rpc(scheduler, connection_args=Security().get_connection_args("client")) as remote:
        while not is_known(here, await remote.identity()):
            await asyncio.sleep(0.2)


def is_known(host: str, identity: dict[str, dict[str, dict[str, str]]]) -> bool:
    """Whether that host is a worker's; the scheduler itself need only answer."""
    workers = {worker["host"] for worker in identity["workers"].values()}
    return host in workers or f"//{host}:" in identity["address"]


if not READY.exists():
    asyncio.run(check(os.environ["DASK_SCHEDULER_ADDRESS"]))
    READY.touch()
