"""Sources of a test's hottest functions, with what was seen in each of their lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_schedprof.judge.accounts import KeptSide, accounts_of, metrics_of
from pytest_schedprof.judge.explanation import side_in
from pytest_schedprof.judge.owners import PLUMBING, owner_of
from pytest_schedprof.judge.recordings import Lines, read_lines
from pytest_schedprof.judge.series import label_of
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.metric import BYTECODES, METRICS, SELF, readable
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import BackendResult, Result

MOST_FUNCTIONS, MOST_LINES = 15, 250
"""Functions whose code a page shows, and lines of all of them."""

AROUND = 2
"""Lines that are shown around one in which something was seen."""


Row = tuple[int, tuple[str, ...], float, str, bool]
"""A line of a source: its number, what each column saw in it, the largest of these as a fraction of
the line of the function with most, its text, and whether it is right after the row above."""


class Column(NamedTuple):
    """What one backend saw in each line of each function."""

    head: str
    metric: str
    """Empty for samples."""
    lines: Lines

    def text(self, amount: float) -> str:
        """Return an amount as the page shows it; nothing if it is 0."""
        if not amount:
            return ""
        return readable(amount, METRICS[self.metric]) if self.metric else f"{amount:,.0f}"


class Code(NamedTuple):
    """The sources that a page shows."""

    heads: tuple[str, ...] = ()
    functions: tuple[tuple[Function, str, list[Row]], ...] = ()
    """Each function with the file that it is in."""

    @property
    def ids(self) -> dict[str, str]:
        """Where the code of each function is on the page."""
        return {name: f"code-{number}" for number, (name, _, _) in enumerate(self.functions)}


def code_of(result: Result, directory: Path) -> Code:
    """Return the sources that the run of a test keeps, of the functions in which most was seen."""
    side = side_in(directory, result)
    sources = side.sources()
    if not sources:
        return Code()
    columns = [column for backend in result.backends for column in _columns(side, backend)]
    shown: list[tuple[Function, str, list[Row]]] = []
    room = MOST_LINES
    for function in _hottest(columns, sources):
        rows = list(_rows(function, sources[function], columns))
        if rows and len(rows) <= room and len(shown) < MOST_FUNCTIONS:
            room -= len(rows)
            shown.append((function, sources[function].file, rows))
    return Code(tuple(column.head for column in columns), tuple(shown))


def _columns(side: KeptSide, backend: BackendResult) -> Iterator[Column]:
    name = label_of(backend)
    if backend.shares is not None and side.directory is not None:
        both, own = read_lines(side.directory, backend)
        if own:
            yield Column(f"{name}: samples", "", both)
            yield Column(SELF, "", own)
    elif BYTECODES in metrics_of(backend):
        lines = accounts_of(side, backend, BYTECODES).lines
        if lines:
            yield Column(f"{name}: {BYTECODES} / task", BYTECODES, lines)


def _hottest(columns: Sequence[Column], sources: Iterable[Function]) -> list[Function]:
    """Return the functions with the largest parts of any column; of plumbing only its own."""
    heat: Counter[Function] = Counter()
    for column in columns:
        sums = {name: sum(lines.values()) for name, lines in column.lines.items()}
        whole = sum(sums.values()) or 1
        for name, amount in sums.items():
            if column.metric or column.head == SELF or owner_of(name) not in PLUMBING:
                heat[name] = max(heat[name], amount / whole)  # type: ignore[assignment]
    known = set(sources)
    return [name for name, _ in heat.most_common() if name in known]


def _rows(function: Function, source: Source, columns: Sequence[Column]) -> Iterator[Row]:
    texts = source.lines
    numbers = range(source.line, source.line + len(texts))
    lines = [column.lines.get(function, {}) for column in columns]
    amounts = {n: [line.get(n, 0.0) for line in lines] for n in numbers}
    seen = {n for n in numbers if any(amounts[n])}
    most = [max((amounts[n][i] for n in numbers), default=0) or 1 for i in range(len(columns))]
    last = None
    for number, text in zip(numbers, texts, strict=True):
        if seen.isdisjoint(range(number - AROUND, number + AROUND + 1)):
            continue
        cells = tuple(map(Column.text, columns, amounts[number]))
        part = max(amount / top for amount, top in zip(amounts[number], most, strict=True))
        yield number, cells, part, text.rstrip(), last in (None, number - 1)
        last = number
