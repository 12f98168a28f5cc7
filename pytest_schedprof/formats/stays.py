"""Stacks of samples: how long each frame lasted, and a writer of collapsed stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_schedprof.formats.speedscope import Frame, SpeedscopeFile


@dataclass(frozen=True, slots=True)
class Stay:
    """A frame that stayed at the same place of the stack from `start` to `end`."""

    label: str
    depth: int
    start: int
    end: int


def label_of(frame: Frame) -> str:
    """Return function and file, without the line, so that a function's lines are merged."""
    return f"{frame.name} ({frame.file})" if frame.file else frame.name


def stays(stacks: Iterable[tuple[Sequence[str], int]]) -> Iterator[Stay]:
    """Yield each frame for as long as it and its callers stay the same, callees before callers.

    Args:
        stacks: labels from the root on, and how long the stack lasted.
    """
    opened: list[tuple[str, int]] = []
    now = 0
    for stack, length in stacks:
        common = _common(opened, stack)
        yield from _closed(opened, common, now)
        opened.extend((label, now) for label in stack[common:])
        now += length
    yield from _closed(opened, 0, now)


def _common(opened: Sequence[tuple[str, int]], stack: Sequence[str]) -> int:
    """Count the frames, from the root on, that are still the same."""
    count = 0
    for (label, _), other in zip(opened, stack, strict=False):
        if label != other:
            break
        count += 1
    return count


def _closed(opened: list[tuple[str, int]], depth: int, now: int) -> Iterator[Stay]:
    while len(opened) > depth:
        label, start = opened.pop()
        yield Stay(label, len(opened), start, now)


def write_collapsed(file: SpeedscopeFile) -> bytes:
    """Write a line for each stack, sorted: `thread;caller (file);callee (file) 12`."""
    labels = [_safe(label_of(frame)) for frame in file.frames]
    counts: Counter[str] = Counter()
    for thread in file.threads:
        for index, count in Counter(thread.stacks).items():
            frames = (labels[frame] for frame in file.stacks[index])
            counts[";".join([_safe(thread.thread) or "thread", *frames])] += count
    return _lines(counts)


def write_raw(file: SpeedscopeFile) -> bytes:
    """Write collapsed stacks as py-spy does: by line of code, and all threads together."""
    labels = [_safe(_label_with_line(frame)) for frame in file.frames]
    counts: Counter[str] = Counter()
    for thread in file.threads:
        for index, count in Counter(thread.stacks).items():
            counts[";".join(labels[frame] for frame in file.stacks[index])] += count
    return _lines(counts)


def _label_with_line(frame: Frame) -> str:
    return f"{frame.name} ({frame.file}:{frame.line})" if frame.file else frame.name


def _lines(counts: Counter[str]) -> bytes:
    lines = (f"{stack} {count}\n" for stack, count in sorted(counts.items()))
    return "".join(lines).encode("utf-8", "replace")


def _safe(label: str) -> str:
    """Replace what would end a frame or a line."""
    return " ".join(label.replace(";", ":").split())
