"""Counts calls by their callers, and instructions by their lines."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType

from .choice import module_of


class Callers:
    """How often which code called which other code."""

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[int, int], int] = defaultdict(int)
        """Calls by the `id` of the called and of the calling code."""
        self.codes: dict[int, tuple[str, CodeType]] = {}
        """Module and code of the callers, which keeps their `id`s their own."""

    def note(self, frame: FrameType) -> None:
        """Count a call of a frame's code by the code that it was called from."""
        caller = frame.f_back
        if caller is None:
            return
        key = id(caller.f_code)
        if key not in self.codes:
            self.codes[key] = (module_of(caller), caller.f_code)
        self.counts[id(frame.f_code), key] += 1

    def by_name(self, functions: Mapping[str, Sequence[CodeType]]) -> dict[str, dict[str, int]]:
        """Return the calls of each function by the functions that called it.

        Args:
            functions: the code of each function that was counted; others are named by their code.
        """
        names = {id(code): name for name, codes in functions.items() for code in codes}
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (called, calling), times in self.counts.items():
            if called in names:
                found[names[called]][names.get(calling) or self._name(calling)] += times
        return {name: dict(sorted(callers.items())) for name, callers in sorted(found.items())}

    def _name(self, key: int) -> str:
        module, code = self.codes[key]
        return f"{module}:{code.co_qualname}"


def lines_of(codes: Sequence[CodeType], executed: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Return how many instructions of each line ran, by how often each instruction did.

    The first code's file is the one that is meant: a replacement of a function may be in another.
    """
    found: Counter[int] = Counter()
    for code, times in zip(codes, executed, strict=True):
        if code.co_filename != codes[0].co_filename:
            continue
        starts = [(start, line) for start, _, line in code.co_lines()]
        offsets = [start for start, _ in starts]
        for offset, count in times.items():
            line = starts[bisect_right(offsets, offset) - 1][1]
            if count:  # what belongs to no line is of the function's begin
                found[code.co_firstlineno if line is None else line] += count
    return dict(sorted(found.items()))
