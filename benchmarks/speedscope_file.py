"""A large speedscope file, formatted as py-spy formats it, from a seeded generator.

It has what real files have: one frame for each line of a function, stacks that share their
outer frames, hot and rare stacks, samples without any frame, and a thread without a name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TextIO

FRAMES, STACKS, LINES_PER_FUNCTION = 1500, 3000, 3
EMPTY_EVERY = 200
CHUNK = 10_000
SITE = "/usr/lib/python3/site-packages"
MODULES = (
    "distributed/scheduler",
    "distributed/core",
    "distributed/comm/tcp",
    "distributed/protocol/core",
    "distributed/batched",
    "distributed/stealing",
    "tornado/iostream",
    "tornado/platform/asyncio",
    "dask/_task_spec",
    "msgpack/fallback",
    "asyncio/base_events",
    "asyncio/events",
    "threading",
    "selectors",
)
THREADS = {"MainThread": 0.7, "Profile": 0.1, "IO loop": 0.1, "Dask-Offload": 0.05, "": 0.05}
"""Threads, with the part of the file that each one takes."""


def frames() -> list[dict[str, object]]:
    """Every line of code that occurs in a sample."""
    places = []
    for number in range(FRAMES):
        function, line = divmod(number, LINES_PER_FUNCTION)
        module = MODULES[function % len(MODULES)]
        name = f"{module.rpartition('/')[2].title()}.method_{function}"
        file = f"{SITE}/{module}.py"
        places.append({"name": name, "file": file, "line": 20 * function + line + 1, "col": None})
    return places


def stacks(generator: random.Random) -> list[str]:
    """Distinct stacks as text; they share their outer frames, as stacks of an event loop do."""
    outer = [generator.choices(range(FRAMES), k=generator.randint(8, 12)) for _ in THREADS]
    return [
        json.dumps(
            generator.choice(outer) + generator.choices(range(FRAMES), k=generator.randint(12, 33)),
            separators=(",", ":"),
        )
        for _ in range(STACKS)
    ]


def samples(generator: random.Random, known: list[str], size: int) -> Iterator[list[str]]:
    """Yield about `size` characters of samples in chunks; few stacks are hot and many are rare."""
    weights = list(accumulate(1 / (rank + 10) for rank in range(STACKS)))
    while size > 0:
        chunk = generator.choices(known, cum_weights=weights, k=CHUNK)
        chunk[::EMPTY_EVERY] = ["[]"] * len(chunk[::EMPTY_EVERY])
        yield chunk
        size -= sum(map(len, chunk)) + len(",0.01,") * CHUNK


def write_thread(file: TextIO, name: str, chunks: Iterator[list[str]]) -> None:
    """Write one thread, byte for byte as py-spy does."""
    head = {"type": "sampled", "name": f'Thread 4711 "{name}"', "unit": "seconds"}
    head_text = json.dumps({**head, "startValue": 0.0}, separators=(",", ":"))
    file.write(head_text[:-1] + ',"endValue":6000.0,"samples":[')
    count = 0
    for chunk in chunks:
        file.write("," * bool(count) + ",".join(chunk))
        count += len(chunk)
    file.write('],"weights":[' + ",".join(["0.01"] * count) + "]}")


def write_file(path: Path, size: int) -> None:
    """Write a file of about `size` bytes; it is the same each time."""
    generator = random.Random(20)
    known = stacks(generator)
    with path.open("w") as file:
        file.write('{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[')
        for number, (name, part) in enumerate(THREADS.items()):
            file.write("," * bool(number))
            write_thread(file, name, samples(generator, known, round(size * part)))
        shared = json.dumps(frames(), separators=(",", ":"))
        file.write(f'],"shared":{{"frames":{shared}}},"activeProfileIndex":null,')
        file.write('"exporter":"py-spy@0.4.3","name":"py-spy profile"}')
