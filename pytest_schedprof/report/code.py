"""Sources of a test's hottest functions, with what was seen in each of their lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.formats.speedscope import SpeedscopeFile, read_speedscope
from pytest_schedprof.judge.accounts import KeptSide, accounts_of, metrics_of
from pytest_schedprof.judge.explanation import side_in
from pytest_schedprof.judge.tally import busy_stack
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.metric import BYTECODES, METRICS, SELF, readable
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.report.page_reading import SAMPLES, Names
from pytest_schedprof.report.words import Name, name_of, with_mode
from pytest_schedprof.store.places import inside, read_kept


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
        for function, line in dict.fromkeys(places):  # in an order that is the same each time
            found.both[function][line] += count
        function, line = places[-1]
        found.own[function][line] += count


MOST_FUNCTIONS, MOST_LINES = 15, 250
"""Functions whose code a page shows, and lines of all of them."""

AROUND = 2
"""Lines that are shown around one in which something was seen."""


class Column(NamedTuple):
    """What one backend saw in each line of each function."""

    head: str
    metric: str
    """Empty for samples."""
    lines: Mapping[Function, Mapping[int, float]]

    def amount(self, function: Function, line: int) -> float:
        """Return what was seen in a line."""
        return self.lines.get(function, {}).get(line, 0.0)

    def text(self, amount: float) -> str:
        """Return an amount as the page shows it; nothing if it is 0."""
        if not amount:
            return ""
        return readable(amount, METRICS[self.metric]) if self.metric else f"{amount:,.0f}"


class CodeRow(NamedTuple):
    """A line of a source."""

    number: int
    amounts: tuple[str, ...]
    part: float
    """What was seen in it, as a fraction of the line of the function in which most was."""
    text: str
    follows: bool
    """Whether it is the line right after the one above it."""


class CodeView(NamedTuple):
    """The source of one function."""

    id: str
    function: Function
    name: Name
    file: str
    rows: tuple[CodeRow, ...]


class Code(NamedTuple):
    """The sources that a page shows."""

    heads: tuple[str, ...] = ()
    functions: tuple[CodeView, ...] = ()

    @property
    def ids(self) -> dict[str, str]:
        """Where the code of each function is on the page."""
        return {each.function: each.id for each in self.functions}


def code_of(result: Result, directory: Path) -> Code:
    """Return the sources that the run of a test keeps, of the functions in which most was seen."""
    side = side_in(directory, result)
    sources = side.sources()
    if not sources:
        return Code()
    columns = [column for each in result.backends for column in _columns(side, each)]
    views: list[CodeView] = []
    room = MOST_LINES
    for function in _hottest(columns, sources):
        rows = tuple(_rows(function, sources[function], columns))
        if rows and len(rows) <= room and len(views) < MOST_FUNCTIONS:
            room -= len(rows)
            file = sources[function].file
            views.append(CodeView(f"code-{len(views)}", function, name_of(function), file, rows))
    return Code(tuple(each.head for each in columns), tuple(views))


def _columns(side: KeptSide, backend: BackendResult) -> Iterator[Column]:
    name = with_mode(backend.backend, backend.mode)
    if backend.shares is not None and side.directory is not None:
        seen = read_lines(side.directory, backend)
        if seen.own:
            yield Column(f"{name}: samples", "", seen.both)
            yield Column(SELF, "", seen.own)
    elif BYTECODES in metrics_of(backend):
        lines = accounts_of(side, backend, BYTECODES).lines
        if lines:
            yield Column(f"{name}: {BYTECODES} / task", BYTECODES, lines)


def _hottest(columns: Sequence[Column], sources: Iterable[Function]) -> list[Function]:
    """Return the functions with the largest parts of any column of what they did themselves."""
    heat: Counter[Function] = Counter()
    for column in columns:
        sums = {name: sum(lines.values()) for name, lines in column.lines.items()}
        whole = sum(sums.values()) or 1
        for name, amount in sums.items():
            heat[name] = max(heat[name], amount / whole)  # type: ignore[assignment]
    known = set(sources)
    return [name for name, _ in heat.most_common() if name in known]


def _rows(function: Function, source: Source, columns: Sequence[Column]) -> Iterator[CodeRow]:
    texts = source.text.splitlines()
    numbers = range(source.line, source.line + len(texts))
    amounts = {n: [each.amount(function, n) for each in columns] for n in numbers}
    seen = {n for n in numbers if any(amounts[n])}
    most = [max((amounts[n][i] for n in numbers), default=0) or 1 for i in range(len(columns))]
    last = None
    for number, text in zip(numbers, texts, strict=True):
        if seen.isdisjoint(range(number - AROUND, number + AROUND + 1)):
            continue
        told = tuple(
            column.text(amount) for column, amount in zip(columns, amounts[number], strict=True)
        )
        part = max(amount / top for amount, top in zip(amounts[number], most, strict=True))
        yield CodeRow(number, told, part, text.rstrip(), last in (None, number - 1))
        last = number
