"""Files of recorded workloads: blocks of columns, each readable by itself.

A file is the line MAGIC and then blocks. A block is its length and CRC-32 as little-endian numbers
of 32 bit, then a map in MessagePack, compressed by zlib. Its `kind` says which columns it has.
Columns of numbers are arrays of 64 bit, little-endian. Those of `ids` and times, which are in
microseconds, are differences to the number before.

Parquet needs its end to be read, which a killed scheduler does not write, and a large library.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate, chain
from operator import sub
from pathlib import Path
from typing import Any

import msgpack

from pytest_schedprof.errors import ArtifactError, SettingsError, printable
from pytest_schedprof.model.workload import (
    Graph,
    Group,
    Release,
    Result,
    Task,
    WorkerEvent,
    Workload,
)

MAGIC = b"schedprof workload 1\n"
HEAD = struct.Struct("<II")
MICRO = 1e6
LEVEL = 1
"""Level of compression; 6 saves a twentieth of the bytes, for four times the CPU time."""

LARGEST = 1 << 28
"""Bytes of a block at most; a longer one is damage."""

MOST_SECONDS = 1e10

MOST_UNPACKED = 1 << 29
"""Bytes of all columns at most, which are those of about five million tasks."""


def as_block(content: dict[str, Any]) -> bytes:
    """Return a block for a map of columns."""
    packed = zlib.compress(msgpack.packb(content), LEVEL)
    return HEAD.pack(len(packed), zlib.crc32(packed)) + packed


def numbers(values: Iterable[int]) -> bytes:
    """Return a column of numbers."""
    column = tuple(values)
    if not any(column):
        return bytes(8 * len(column))
    return struct.pack(f"<{len(column)}q", *column)  # half as many instructions as an array


def differences(values: Iterable[int]) -> bytes:
    """Return a column of numbers as differences, which are small where the numbers rise slowly."""
    column = tuple(values)
    return numbers(map(sub, column, chain((0,), column)))


def read_numbers(column: bytes) -> array[int]:
    values: array[int] = array("q")
    values.frombytes(column)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def read_differences(column: bytes) -> list[int]:
    return list(accumulate(read_numbers(column)))


def read_workload(content: bytes, name: str = "the file") -> Workload:
    """Return the workload in a file, up to the last whole block.

    Raises:
        ArtifactError: it is no such file, or has what no recording has.
    """
    if not content.startswith(MAGIC):
        raise ArtifactError(
            f"schedprof: {name} is no recorded workload of this version: it must begin with "
            f"{MAGIC.decode().strip()!r}"
        )
    workload = Workload()
    try:
        for block in _blocks(content, workload):
            _take(workload, _checked(msgpack.unpackb(block, strict_map_key=False)))
    except (ValueError, TypeError, IndexError, StopIteration, MemoryError, zlib.error) as error:
        raise ArtifactError(
            f"schedprof: {name} is damaged: {type(error).__name__}: {error}"
        ) from None
    return workload


def _blocks(content: bytes, workload: Workload) -> Iterator[bytes]:
    """Yield whole blocks; note if the end is cut off."""
    offset, left = len(MAGIC), MOST_UNPACKED
    while offset < len(content):
        packed = b""
        if len(content) - offset >= HEAD.size:
            length, check = HEAD.unpack_from(content, offset)
            packed = content[offset + HEAD.size : offset + HEAD.size + min(length, LARGEST)]
        if not packed or len(packed) != length or zlib.crc32(packed) != check:
            workload.is_cut = True
            return
        offset += HEAD.size + length
        block = zlib.decompressobj().decompress(packed, left + 1)
        left -= len(block)
        if left < 0:
            raise ValueError(f"it has more than {MOST_UNPACKED} bytes when it is unpacked")
        yield block


def _is_time(value: object) -> bool:
    """Whether it is a number of seconds, or of bytes in one; a NaN is none."""
    return isinstance(value, (int, float)) and 0 <= value <= MOST_SECONDS


def _is_number(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 2**63


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_column(value: object) -> bool:
    return isinstance(value, bytes)


def _is_group(value: object) -> bool:
    match value:
        case [str(), number]:
            return number is None or _is_number(number)
    return False


def _is_worker(value: object) -> bool:
    match value:
        case [time, worker, bool(), threads, memory, *more]:
            numbers_of_it = map(_is_number, (worker, threads, memory))
            return _is_time(time) and all(numbers_of_it) and more in ([], [True], [False])
    return False


def _all(is_one: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(is_one, value))


BLOCKS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "head": {"distributed": _is_text, "begun": _is_text},
    "network": {"bandwidth": _is_time},
    "workers": {"workers": _all(_is_worker)},
    "graph": {
        "time": _is_time,
        "client": _is_number,
        "groups": _all(_is_group),
        "annotations": _all(lambda value: isinstance(value, dict)),
        **dict.fromkeys(
            ("ids", "group", "degrees", "annotation", "dependencies", "wanted"), _is_column
        ),
    },
    "results": dict.fromkeys(("ids", "times", "durations", "nbytes", "errors"), _is_column),
    "releases": dict.fromkeys(("ids", "times", "clients", "counts"), _is_column),
}
"""What each kind of block has. Clusters read files too, in environments without msgspec."""


def _checked(block: Any) -> dict[str, Any]:
    """Return a block that has what its kind must have."""
    kind = block.get("kind") if isinstance(block, dict) else None
    if not isinstance(kind, str) or kind not in BLOCKS:
        raise ValueError(f"there is no block of kind {kind!r}")
    for name, is_one in BLOCKS[kind].items():
        if not is_one(block.get(name)):
            raise ValueError(f"{name!r} of {kind!r} is {block.get(name)!r:.80}")
    checked: dict[str, Any] = block
    return checked


def _take(workload: Workload, block: dict[str, Any]) -> None:
    match block["kind"]:
        case "head":
            workload.distributed, workload.begun = block["distributed"], block["begun"]
        case "network":
            workload.bandwidth = block["bandwidth"]
        case "workers":
            workload.workers.extend(WorkerEvent(*event) for event in block["workers"])
        case "graph":
            _take_graph(workload, block)
        case "results":
            _take_results(workload, block)
        case "releases":
            _take_releases(workload, block)


def _take_graph(workload: Workload, block: dict[str, Any]) -> None:
    groups = [Group(prefix, number) for prefix, number in block["groups"]]
    left = iter(read_numbers(block["dependencies"]))
    columns = zip(
        read_differences(block["ids"]),
        read_numbers(block["group"]),
        read_numbers(block["degrees"]),
        read_numbers(block["annotation"]),
        strict=True,
    )
    tasks = [
        Task(
            number,
            groups[group],
            [number - next(left) for _ in range(count)],
            block["annotations"][annotation],
        )
        for number, group, count, annotation in columns
    ]
    _check_order(tasks)
    requests = read_differences(block["wanted"])
    workload.graphs.append(Graph(block["time"], block["client"], tasks, requests))


def _take_results(workload: Workload, block: dict[str, Any]) -> None:
    columns = zip(
        read_differences(block["ids"]),
        read_differences(block["times"]),
        read_numbers(block["durations"]),
        read_numbers(block["nbytes"]),
        block["errors"],
        strict=True,
    )
    results = workload.results
    for number, time, duration, nbytes, error in columns:
        earlier = results.get(number)
        # A run again after a success has failures of its own.
        failed = (*earlier.failed, earlier.seconds) if earlier and earlier.is_error else ()
        results[number] = Result(time / MICRO, duration / MICRO, nbytes, bool(error), failed)


def _take_releases(workload: Workload, block: dict[str, Any]) -> None:
    left = iter(read_differences(block["ids"]))
    columns = zip(
        read_differences(block["times"]),
        read_numbers(block["clients"]),
        read_numbers(block["counts"]),
        strict=True,
    )
    for time, client, count in columns:
        tasks = [next(left) for _ in range(count)]
        workload.releases.append(Release(time / MICRO, client, tasks))


def _check_order(tasks: Sequence[Task]) -> None:
    """Refuse tasks that need each other, of which none could ever run."""
    if any(needed >= task.number for task in tasks for needed in task.dependencies):
        try:
            TopologicalSorter({task.number: task.dependencies for task in tasks}).prepare()
        except CycleError as error:
            raise ValueError(f"tasks need each other: {error.args[1][:10]}") from None


SHIPPED = ("recorded_shuffle", "recorded_rechunk", "recorded_sweep")

_FILES = Path(__file__).parents[1] / "workloads" / "files"


def place_of(name: str) -> Path:
    """Return the file of a recorded workload: one that is shipped, or the one at this path."""
    return _FILES / f"{name}.schedprof" if name in SHIPPED else Path(name)


def check_file(text: str) -> None:
    """Look at the start of a file.

    Raises:
        SettingsError: it cannot be read.
        ArtifactError: it is something else.
    """
    if _read(text, len(MAGIC)) != MAGIC:
        raise ArtifactError(f"schedprof: {place_of(text)} is no recorded workload")


def read_file(text: str) -> Workload:
    """Read the workload of a file, or one that is shipped.

    Raises:
        SettingsError: it cannot be read.
        ArtifactError: it is something else.
    """
    return read_workload(_read(text), str(place_of(text)))


def _read(text: str, size: int = -1) -> bytes:
    path = place_of(text)
    try:
        if path.exists() and not path.is_file():  # out of a pipe nothing may ever come
            raise OSError("it is no regular file")
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        name = printable(f"{path}", keep="")
        raise SettingsError(
            f"schedprof: the workload {name} cannot be read: {error.strerror or error}"
        ) from None
