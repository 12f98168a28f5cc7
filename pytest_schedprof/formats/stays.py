"""From stacks, one after the other, to how long each frame lasted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_schedprof.formats.speedscope import Frame


@dataclass(frozen=True, slots=True)
class Stay:
    """A frame that stayed where it was on the stack."""

    label: str
    depth: int
    start: int
    end: int


def label_of(frame: Frame) -> str:
    """Function and file, without the line: the lines of one function are one."""
    return f"{frame.name} ({frame.file})" if frame.file else frame.name


def stays(stacks: Iterable[tuple[Sequence[str], int]]) -> Iterator[Stay]:
    """Each frame for as long as it and all its callers stay the same, callees before callers.

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
    """How many frames, from the root on, are still the same."""
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
