"""Tells what a process and its children use; a program of its own, which that process starts.

A thread in the process would wait for the interpreter at each file that it reads: beside busy
threads of Python a graph of a second had a single sample.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from timeit import default_timer

import psutil

BEGIN, END = "begin", "end"
MEGABYTE = 1e6

Sample = tuple[float, float, float]
"""When it was, megabytes, and percent of a core."""

Orders = queue.SimpleQueue[str]


def main(pid: int, interval_s: float) -> None:
    """Sample between the orders BEGIN and END; an empty one, or their end, ends the program.

    Each END is answered: of graphs within a graph the first to end has the samples.
    """
    orders: Orders = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    while order := orders.get():
        process = psutil.Process(pid)
        samples = _samples(process, interval_s, orders) if order == BEGIN else ()
        json.dump([*samples], sys.stdout)
        sys.stdout.write("\n")
        sys.stdout.flush()


def _listen(orders: Orders) -> None:
    for line in sys.stdin:
        orders.put(line.strip())
    orders.put("")


def _samples(process: psutil.Process, interval_s: float, orders: Orders) -> Iterator[Sample]:
    """Yield samples until the order to end; there is one at least.

    Pools start their processes at the start of a graph, and each look for them reads about every
    process of the machine. So the looks are at samples 1, 2, 4, 8 and so on.
    """
    observed = {process}
    for number in count(1):
        if not number & (number - 1):
            observed |= {child for child in process.children() if child.pid != os.getpid()}
        moment, held, cpu = default_timer(), 0.0, 0.0
        for member in observed:
            with suppress(psutil.Error):  # it has ended
                more = member.memory_info().rss / MEGABYTE, member.cpu_percent()
                held, cpu = held + more[0], cpu + more[1]
        yield moment, held, cpu
        with suppress(queue.Empty):
            if orders.get(timeout=interval_s) != BEGIN:
                return


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
