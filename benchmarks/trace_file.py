"""Measure reading a full buffer of viztracer: a trace of a million entries, from bytes to costs.

    python benchmarks/trace_file.py [--entries N] [--repeats N]

The file is as viztracer dumps it, with the paths of an installed dask. A fresh process reads it
each time, so that nothing is cached. Memory is the peak of that process, with the bytes of the
file.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice, pairwise
from pathlib import Path

from figures import peak_megabytes, read_afresh, report_reading
from speedscope_file import MODULES

from pytest_schedprof.formats.chrometrace import read_trace
from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.model.profile import CostProfile

ASKED_S = 5.0
ASKED_MB = 1500
STEPS = ("load", "read", "analyse")
SITE = "/home/user/projects/scheduler/.venv/lib/python3.11/site-packages"
FUNCTIONS, DEEPEST = 600, 40
OF_C = ("builtins.isinstance", "builtins.len", "dict.get", "_thread.lock.acquire", "list.append")
THREAD = 4711


def names() -> list[str]:
    """Functions as viztracer names them: in modules of dask, and some of C."""
    places = []
    for number in range(FUNCTIONS):
        module = MODULES[number % len(MODULES)]
        owner = module.rpartition("/")[2].title()
        places.append(f"{owner}State.method_{number} ({SITE}/{module}.py:{20 * number + 1})")
    return [*places, *OF_C]


def calls(generator: random.Random) -> Iterator[tuple[int, int, int]]:
    """Yield function, begin and end of each call in nanoseconds, in the order in which they end.

    The stack grows and shrinks at random, so that calls nest, recur and have siblings.
    """
    hot = generator.choices(range(FUNCTIONS + len(OF_C)), k=100_000)
    stack: list[tuple[int, int]] = []
    for number in count():
        now = 4_000_000_000_000 + 300 * number
        if len(stack) > 4 and (len(stack) > DEEPEST or hot[number % len(hot)] % 2):
            function, since = stack.pop()
            yield function, since, now
        else:
            stack.append((hot[number * 7 % len(hot)], now))


def event(name: str, since: int, until: int) -> str:
    """One event, byte for byte as viztracer dumps it."""
    lasted = until - since
    return (
        f'{{"pid":{THREAD},"tid":{THREAD},"ts":{since // 1000}.{since % 1000:03d},"ph":"X",'
        f'"cat":"fee","dur":{lasted // 1000}.{lasted % 1000:03d},"name":"{name}"}}'
    )


def write_file(path: Path, entries: int) -> None:
    """Write a trace of so many calls; it is the same each time."""
    known = names()
    head = f'{{"ph":"M","pid":{THREAD},"tid":{THREAD},"name":"thread_name","args":{{"name":"M"}}}}'
    mark = f'{{"pid":{THREAD},"tid":{THREAD},"ts":1.0,"ph":"i","cat":"instant","name":"e","s":"g"}}'
    with path.open("w") as file:
        file.write(f'{{"traceEvents":[{head},')
        for function, since, until in islice(calls(random.Random(20)), entries):
            file.write(event(known[function], since, until) + ",")
        file.write(f'{mark}], "viztracer_metadata": {{"overflow":false}}}}')


def name_places(places: list[tuple[str, str, int]]) -> list[str]:
    """Name functions as the scheduler would, from the path of the file alone."""
    start, end = len(SITE) + 1, -len(".py")
    return [f"{file[start:end].replace('/', '.')}:{name}" for file, name, _ in places]


def read(path: Path) -> None:
    """Print seconds of each step, peak megabytes and findings; runs in the fresh process."""
    times = [time.perf_counter()]
    content = path.read_bytes()
    times.append(time.perf_counter())
    functions, _ = read_trace(content, name_places)
    times.append(time.perf_counter())
    profile = CostProfile("viztracer", "", functions)
    costs = Costs([unit_of(1000, {}, [profile])])
    owners = [costs.of("seconds", f"@{owner}").value for owner in ("transitions", "comm")]
    measured = costs.measured()
    times.append(time.perf_counter())
    steps = [after - before for before, after in pairwise(times)]
    summary = f"{len(measured.functions)} functions; {owners[0]:.6f} s per task in transitions"
    print(json.dumps([steps, peak_megabytes(), summary]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.read)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "viztracer.json")
        write_file(path, arguments.entries)
        print(f"{arguments.entries} entries, {path.stat().st_size / 1e6:.1f} MB")
        report_reading(
            [read_afresh(__file__, path) for _ in range(arguments.repeats)],
            STEPS,
            ASKED_S,
            ASKED_MB,
        )


if __name__ == "__main__":
    main()
