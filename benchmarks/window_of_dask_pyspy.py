"""The part of window.py that runs in another environment, with dask-pyspy, not this package.

For each number of seconds on standard input, it profiles an idle scheduler for so long, and
prints how many seconds entering and leaving took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dask_pyspy import pyspy_on_scheduler
from distributed import Client

PROGRAM = "from distributed.cli.dask_scheduler import main; main()"
FLAGS = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")


@contextmanager
def scheduler(directory: str) -> Iterator[Client]:
    """A client of a scheduler in a process of its own, with the py-spy of its environment."""
    place = os.path.join(directory, "scheduler.json")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *FLAGS, "--scheduler-file", place],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": path, "DASK_LOGGING__DISTRIBUTED": "error"},
    )
    try:
        with Client(scheduler_file=place, timeout=30) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def one_window(client: Client, output: str, pause: float) -> tuple[float, float]:
    start = time.perf_counter()
    with pyspy_on_scheduler(output, client=client):
        entered = time.perf_counter()
        time.sleep(pause)
        leaving = time.perf_counter()
    return entered - start, time.perf_counter() - leaving


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, scheduler(directory) as client:
        for line in sys.stdin:
            seconds = one_window(client, os.path.join(directory, "profile"), float(line))
            print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
