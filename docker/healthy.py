"""Exit with status 0 once the scheduler answers and, in a worker's container, knows that worker.

After the first success the scheduler is not asked again: periodic requests would be in every
profile. A scheduler or worker that dies ends its container anyway.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

READY = Path("/dev/shm/healthy")
"""Created after the first success; a restart of the container deletes it."""


async def check(scheduler: str) -> None:
    """Wait until the scheduler knows this container; Docker limits the time.

    Uses dask's own protocol, with the TLS settings of dask's configuration.
    """
    from distributed import rpc
    from distributed.security import Security

    here = socket.gethostbyname(socket.gethostname())
    async with rpc(scheduler, connection_args=Security().get_connection_args("client")) as remote:
        while not is_known(here, await remote.identity()):
            await asyncio.sleep(0.2)


def is_known(host: str, identity: dict[str, dict[str, dict[str, str]]]) -> bool:
    """Whether the host is that of a known worker, or of the scheduler itself."""
    workers = {worker["host"] for worker in identity["workers"].values()}
    return host in workers or f"//{host}:" in identity["address"]


if not READY.exists():
    asyncio.run(check(os.environ["DASK_SCHEDULER_ADDRESS"]))
    READY.touch()
