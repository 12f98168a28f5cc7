"""The page of a test: its record, its samples as flame graphs, and its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.comparison import Difference, Parting
from pytest_schedprof.model.decisions import Decided
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.explanation import Explanation, Part, SourceChange, SourceLine
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.report.changes import ComparisonTable, comparison_tables, condition_words
from pytest_schedprof.report.code import Code, code_of
from pytest_schedprof.report.decisions import DecisionsPicture, picture
from pytest_schedprof.report.flames import Flame, Flames
from pytest_schedprof.report.ledger import Ledger, ledger_of
from pytest_schedprof.report.others import Other
from pytest_schedprof.report.page_reading import read_steps
from pytest_schedprof.report.results import (
    RECORD,
    ShownFile,
    SpanTable,
    evidence_files,
    facts_of_settings,
    facts_of_test,
    headline,
    notes_of,
    pictures_first,
    profile_files,
    span_table,
)
from pytest_schedprof.report.tables import (
    LISTED,
    CostTable,
    FunctionTable,
    LimitRow,
    OwnerRow,
    busy_time,
    cost_table,
    function_table,
    limit_rows,
    owner_rows,
    whole_costs,
)
from pytest_schedprof.report.trends import TrendRow
from pytest_schedprof.report.words import (
    Fact,
    Name,
    counted,
    explanation_headline,
    name_of,
    others,
    sentence,
    size_of,
    top_parts,
    with_mode,
    with_more,
)
from pytest_schedprof.store.runs import decided_in

MOST_LINES = 120
"""Lines of a function that a page shows."""


class LineRow(NamedTuple):
    """A line of a source on both sides; numbers are empty where a side lacks it."""

    before: str
    after: str
    more: str
    """How many more of its instructions ran per call; empty if that is not known, or nothing."""
    text: str
    kind: str
    """`new`, `gone`, `dearer` or empty."""
    follows: bool
    """Whether it is the line right after the one above it."""


class SourceView(NamedTuple):
    """The source of one function."""

    name: Name
    file: str
    rows: tuple[LineRow, ...]
    left: int
    """Lines that are not shown."""


class ReasonView(NamedTuple):
    """Why one figure of a backend regressed."""

    test_id: str
    backend: str
    headline: str
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    sources: tuple[SourceView, ...]


def reason_view(found: Explanation) -> ReasonView:
    """Return the view of an explanation."""
    shown = top_parts(found)
    rest = others(found, len(shown))
    return ReasonView(
        found.test_id,
        found.backend,
        explanation_headline(found),
        (*(sentence(found, part) for part in shown), *([rest] if rest else [])),
        found.notes,
        tuple(_sources(shown)),
    )


def _sources(parts: list[Part]) -> Iterator[SourceView]:
    for part in parts:
        source = part.source
        if source and source.lines and (part.by_price > 0 or part.is_new):
            yield SourceView(
                name_of(part.function),
                source.file,
                tuple(_rows(source)),
                max(0, len(source.lines) - MOST_LINES),
            )


def _rows(source: SourceChange) -> Iterator[LineRow]:
    last: int | None = None
    for line in source.lines[:MOST_LINES]:
        number = line.after if line.after is not None else line.before
        assert number is not None
        follows = last is None or number <= last + 1
        last = number
        before, after = (str(each or "") for each in (line.before, line.after))
        yield LineRow(before, after, with_more(line.more), line.text.rstrip(), _kind(line), follows)


def _kind(line: SourceLine) -> str:
    if line.after is None:
        return "gone"
    if line.before is None:
        return "new"
    return "dearer" if with_more(line.more).startswith("+") else ""


PER_TASK = " / task"


@dataclass(frozen=True, slots=True)
class BackendView:
    """What one backend found."""

    id: str
    name: str
    headline: str
    notes: tuple[str, ...]
    owners: tuple[OwnerRow, ...]
    functions: FunctionTable
    flames: tuple[Flame, ...]
    no_flame: str
    """Why a backend with samples has no flame graph; else empty."""
    whole: tuple[Fact, ...]
    costs: CostTable | None
    decisions: DecisionsPicture | None
    ledger: Ledger | None
    spans: SpanTable | None


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file beside the page, and how to open it."""

    name: str
    size: str
    opens: str


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A kind of evidence."""

    kind: str
    what: str
    files: tuple[FileRow, ...]
    notes: tuple[str, ...]
    missing: str


@dataclass(frozen=True, slots=True)
class TestPage:
    """All that the page of a test shows."""

    __test__ = False  # not a test class, whatever its name

    test_id: str
    outcome: str
    verdict: str
    run_id: str
    up: str
    """Path from here to the run's page."""
    facts: tuple[Fact, ...]
    troubles: tuple[str, ...]
    limits: tuple[LimitRow, ...]
    unjudged: tuple[str, ...]
    backends: tuple[BackendView, ...]
    compared_with: str
    conditions: tuple[str, ...]
    comparisons: tuple[ComparisonTable, ...]
    null: tuple[ComparisonTable, ...]
    evidence: tuple[EvidenceRow, ...]
    files: tuple[FileRow, ...]
    settings: tuple[Fact, ...]
    code: Code
    trends: tuple[TrendRow, ...] = ()
    reasons: tuple[ReasonView, ...] = ()
    """Why figures regressed."""


def page_of_test(
    result: Result,
    directory: Path,
    run: Path,
    other: Other | None = None,
    known: KnownBackends = NO_BACKENDS,
) -> TestPage:
    """Return the page of a test, without trends.

    Args:
        result: the test's record.
        directory: of its files.
        run: directory of its run.
        other: the same test on another side, to compare its samples with.
        known: facts about backends, which tell what opens their files.
    """
    partings = {each.backend: each.parting for each in result.comparisons if each.parting}
    builder = _Backends(result.test_id, directory, other, known, partings)
    return TestPage(
        test_id=result.test_id,
        outcome=result.outcome,
        verdict=result.verdict.value,
        run_id=run.name,
        up=Path(os.path.relpath(run, directory)).as_posix(),
        facts=tuple(facts_of_test(result)),
        troubles=result.troubles,
        limits=limit_rows(result),
        unjudged=result.unjudged,
        backends=tuple(builder.view(*each) for each in enumerate(result.backends)),
        compared_with=result.baseline,
        conditions=tuple(condition_words(result.comparisons)),
        comparisons=comparison_tables(result.comparisons),
        null=comparison_tables(result.null),
        evidence=tuple(_evidence_row(directory, each) for each in result.evidence),
        files=_file_rows(directory, [*profile_files(result, known), RECORD]),
        settings=tuple(facts_of_settings(result)),
        code=code_of(result, directory),
    )


@dataclass(frozen=True, slots=True)
class _Backends:
    test_id: str
    directory: Path
    other: Other | None
    known: KnownBackends
    partings: Mapping[str, Parting]
    """Where the decisions part, by backend."""

    def view(self, number: int, backend: BackendResult) -> BackendView:
        drawing = Flames(self.directory, self.other, self.known)
        flames, reason = drawing.of(f"flame-{number}", backend)
        costs, tasks = backend.costs, backend.window.tasks
        ledger = ledger_of(backend, read_steps(self.directory, backend))
        return BackendView(
            id=f"backend-{number}",
            name=with_mode(backend.backend, backend.mode),
            headline=_headline(backend),
            notes=notes_of(backend),
            owners=owner_rows(backend),
            functions=function_table(backend),
            flames=flames,
            no_flame=reason,
            whole=tuple(_whole_facts(backend)),
            costs=cost_table(costs, tasks, LISTED, own_seconds=True)
            if costs and not ledger
            else None,
            decisions=self._decisions(backend),
            ledger=ledger,
            spans=span_table(backend, self.test_id),
        )

    def _decisions(self, backend: BackendResult) -> DecisionsPicture | None:
        """Return the round in which both sides part, or else the first one."""
        mine = decided_in(self.directory, (backend,))
        if not (backend.hashes and mine):
            return None
        parting = self.partings.get(backend.backend)
        number = parting.round - 1 if parting else 0
        before = self.other.backend(backend) if self.other else None
        place = self.other.directory if self.other else None
        theirs = decided_in(place, (before,)) if before else []
        if len(mine) <= number or not _are_of(parting, theirs[number : number + 1]):
            return picture([("", mine[0])], None)
        assert self.other is not None
        earlier = (f"before: {self.other.name}", theirs[number])
        return picture([earlier, ("now", mine[number])], parting)


def _are_of(parting: Parting | None, rounds: Sequence[Decided]) -> bool:
    """Whether these are the decisions that the comparison was about, and others than now."""
    if parting is None or parting.what is Difference.NOTHING:
        return False
    return bool(rounds) and rounds[0].hash == parting.hashes[0]


def _headline(backend: BackendResult) -> str:
    rounds = backend.window.rounds
    more = f", {counted(rounds, 'round')}" if rounds > 1 else ""
    busy, whole = busy_time(backend).cpu, backend.window.cpu_us_per_task or 0.0
    part = (
        f"; {busy:,.0f} us of it in busy samples, which are divided below"
        if busy and round(busy) < round(whole)
        else ""
    )
    return f"{headline(backend, thousands=',')}{more}{part}"


def _whole_facts(backend: BackendResult) -> Iterator[Fact]:
    if backend.costs:
        for column, text in whole_costs(backend.costs, backend.window.tasks):
            yield Fact(column.of_whole(PER_TASK), text)


def _file_rows(directory: Path, files: Sequence[ShownFile]) -> tuple[FileRow, ...]:
    return tuple(FileRow(each.name, _size(directory / each.name), each.how) for each in files)


def _size(path: Path) -> str:
    try:
        return size_of(path.stat().st_size)
    except OSError:
        return "missing"


def _evidence_row(directory: Path, found: Evidence) -> EvidenceRow:
    files = _file_rows(directory, pictures_first(evidence_files(found)))
    return EvidenceRow(found.kind, found.description, files, found.notes, found.missing)
