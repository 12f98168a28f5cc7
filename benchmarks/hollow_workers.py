"""Workers that call every task finished at once and compute nothing, many in one process.

    python benchmarks/hollow_workers.py tcp://127.0.0.1:8786 16

So one machine can load a scheduler as a cluster does. They have no data and no port: this is
for loads whose results nobody fetches. The program ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed.comm.core import Comm, connect
from distributed.metrics import time
from distributed.protocol.pickle import dumps
from distributed.versions import get_versions

AT_A_TIME = 50
"""A scheduler takes only so many connections that have not been accepted yet."""

COMPUTE_S = 0.001
"""What a task is said to have taken."""

INT = dumps(int)
IO = {"read_bps": 0.0, "write_bps": 0.0}
METRICS = {
    "task_counts": {},
    "bandwidth": {"total": 1e8, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "managed_bytes": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
    "transfer": {
        f"{way}_{what}": 0
        for way in ("incoming", "outgoing")
        for what in ("bytes", "count", "count_total")
    },
    "event_loop_interval": 0.02,
    "cpu": 0.0,
    "memory": 100_000_000,
    "num_fds": 10,
    "host_net_io": IO,
    "host_disk_io": IO,
}


@contextmanager
def hollow_workers(address: str, count: int) -> Iterator[None]:
    """Such workers, in a process of their own, as long as the block lasts."""
    command = [sys.executable, os.path.abspath(__file__), address, str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        yield
    finally:
        process.communicate()


def registration(number: int) -> dict[str, Any]:
    """What a worker says when it connects; its address need only be one of its own."""
    return {
        "op": "register-worker",
        "reply": False,
        "address": f"tcp://127.1.{number // 250}.{number % 250 + 1}:9999",
        "server_id": f"hollow-{os.getpid()}-{number}",
        "name": f"hollow-{number}",
        "status": "running",
        "nthreads": 1,
        "memory_limit": 4 * 2**30,
        "resources": {},
        "local_directory": "",
        "services": {},
        "nanny": None,
        "extra": {},
        "pid": os.getpid(),
        "versions": get_versions(),
        "now": time(),
        "metrics": {**METRICS, "time": time()},
        "stimulus_id": f"worker-connect-{time()}",
    }


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """What a worker says to one message: a task is finished, or too far on to be stolen."""
    now = time()
    if message["op"] == "compute-task":
        return {
            "op": "task-finished",
            "status": "OK",
            "key": message["key"],
            "run_id": message["run_id"],
            "nbytes": 28,
            "type": INT,
            "typename": "int",
            "metadata": {},
            "thread": 1,
            "startstops": [{"action": "compute", "start": now - COMPUTE_S, "stop": now}],
            "stimulus_id": f"task-finished-{now}",
        }
    if message["op"] == "steal-request":
        said = {"op": "steal-response", "state": "executing"}
        return said | {name: message[name] for name in ("key", "stimulus_id")}
    return None


async def work(address: str, number: int) -> None:
    comm: Comm = await connect(address, deserialize=False)
    await comm.write(registration(number), serializers=["msgpack"])
    welcome = await comm.read()
    if welcome["status"] != "OK":
        raise RuntimeError(f"the scheduler refused a worker: {welcome}")
    while True:
        messages = await comm.read()
        if any(message["op"] in ("close", "close-stream") for message in messages):
            return
        if answers := [said for said in map(answer, messages) if said]:
            await comm.write(answers, serializers=["msgpack"])


async def serve(address: str, count: int) -> None:
    workers = []
    for number in range(count):
        workers.append(asyncio.create_task(work(address, number)))
        if number % AT_A_TIME == AT_A_TIME - 1:
            await asyncio.sleep(0.05)
    await asyncio.gather(*workers)


def end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
