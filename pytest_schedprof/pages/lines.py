"""Busy samples of one backend by function and line of its file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_schedprof.analysis.tally import busy_stack
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.formats.speedscope import SpeedscopeFile, read_speedscope
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.pages.naming import Names
from pytest_schedprof.pages.reading import SAMPLES
from pytest_schedprof.storage.reading import inside, read_kept


class SeenLines(NamedTuple):
    """Samples of each line of each function."""

    both: Mapping[Function, Counter[int]]
    """With those of what the line called; a sample counts once for each line."""
    own: Mapping[Function, Counter[int]]


def read_lines(directory: Path, backend: BackendResult) -> SeenLines:
    """Read all files of one backend with samples; nothing if any cannot be read."""
    found = SeenLines(defaultdict(Counter), defaultdict(Counter))
    functions = backend.shares.functions if backend.shares else ()
    names = Names(each.function for each in functions)
    try:
        for file in (name for name in backend.artifacts if name.endswith(SAMPLES)):
            content = read_speedscope(read_kept(inside(directory, file)))
            _add(found, content, names, is_shared=bool(backend.shares and backend.shares.is_shared))
    except SchedprofError:
        return SeenLines({}, {})
    return found


def _add(found: SeenLines, file: SpeedscopeFile, names: Names, *, is_shared: bool) -> None:
    frames = file.frames
    named = names([(each.file or "", each.name, each.line or 0) for each in frames])
    counts: Counter[int] = Counter()
    for thread in file.threads:
        counts.update(thread.stacks)
    for number, count in counts.items():
        stack = file.stacks[number]
        busy = busy_stack(tuple(named[frame] for frame in stack), is_shared)
        if busy is None:
            continue
        places = [(named[each], frames[each].line or 0) for each in stack[-len(busy.stack) :]]
        for function, line in set(places):
            found.both[function][line] += count
        function, line = places[-1]
        found.own[function][line] += count
