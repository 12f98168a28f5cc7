"""Find two kept results of a test, and explain what changed between them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path
from textwrap import dedent

from msgspec.structs import replace

from pytest_schedprof.errors import ArtifactError, SchedprofError, SettingsError
from pytest_schedprof.judge.accounts import COUNTS, KeptSide, accounts_of, metrics_of
from pytest_schedprof.judge.causes import NOTHING, causes, enclosing
from pytest_schedprof.judge.compare import choose
from pytest_schedprof.judge.estimate import ROUNDING
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.matching import are_whole_bodies, measurements, tasks_of_rounds
from pytest_schedprof.judge.owners import owner_of_counted
from pytest_schedprof.model.explanation import (
    Accounts,
    Caller,
    Cost,
    Explanation,
    Part,
    Place,
    Role,
    Source,
    SourceChange,
    SourceLine,
)
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.metric import DIVIDED
from pytest_schedprof.model.profile import Function, module_of
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import Series
from pytest_schedprof.store.baselines import folder_with_sources, kept_run, load, run_after
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.records import read_record
from pytest_schedprof.store.run_directory import AGAINST, RESULT_FILE, RUN_FILE
from pytest_schedprof.store.runs import KeptRun, KeptTest, find_run, runs_in

MOST = 3
"""Places in a function that are told."""

MATTERS = 0.02
"""A line is told if its rise is at least this part of the largest one."""

AROUND = 3
"""Lines that are shown around one that differs."""

Counts = Mapping[int, float] | None
"""Instructions that ran per call, by line of the file."""

NO_SOURCE = Source("", 1, "")


def source_change(
    before: Source | None, after: Source | None, counts_before: Counts, counts_after: Counts
) -> SourceChange:
    """Compare the sources; where lines were counted, those tell which of them cost more."""
    old, new = before or NO_SOURCE, after or NO_SOURCE
    lines = list(_aligned(old, new))
    if counts_before is not None and counts_after is not None:
        lines = [_counted(line, counts_before, counts_after) for line in lines]
        marked = _dearer(lines)
    else:
        # Lines without code cost nothing; without an earlier source all would be new.
        numbers = code_lines(new) if before else set()
        marked = [line for line in lines if line.before is None and line.after in numbers]
    places = sorted(
        _places(marked), key=lambda place: (-(place.more or 0.0), place.first - place.last)
    )
    ids = {id(line) for line in marked}
    differs = [id(line) in ids or None in (line.before, line.after) for line in lines]
    return SourceChange(
        new.file or old.file,
        old.text == new.text,
        tuple(
            line
            for number, line in enumerate(lines)
            if any(differs[max(0, number - AROUND) : number + AROUND + 1])
        ),
        tuple(places[:MOST]),
    )


def _aligned(old: Source, new: Source) -> Iterator[SourceLine]:
    """Yield the lines of both sources, each line that they share once."""
    one, other = old.lines, new.lines
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal":
            for offset in range(end - start):
                yield SourceLine(
                    old.line + start + offset, new.line + first + offset, other[first + offset]
                )
            continue
        for offset in range(start, end):
            yield SourceLine(old.line + offset, None, one[offset])
        for offset in range(first, last):
            yield SourceLine(None, new.line + offset, other[offset])


def _counted(
    line: SourceLine, before: Mapping[int, float], after: Mapping[int, float]
) -> SourceLine:
    old = before.get(line.before, 0.0) if line.before is not None else 0.0
    new = after.get(line.after, 0.0) if line.after is not None else 0.0
    return replace(line, more=new - old)


def _dearer(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """Return the lines of which clearly more instructions ran per call than before."""
    most = max((line.more or 0.0 for line in lines), default=0.0)
    least = MATTERS * most
    return [line for line in lines if line.after is not None and (line.more or 0.0) > least]


def code_lines(source: Source) -> set[int]:
    """Return the numbers of the lines in which a statement or an expression begins or ends."""
    try:
        tree = ast.parse(dedent(source.text))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        # The text may be cut off, or not Python's at all: then no line is left out.
        return set(range(source.line, source.line + len(source.lines)))
    numbers: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)) and not _is_docstring(node):
            numbers.update((node.lineno, node.end_lineno or node.lineno))
    return {source.line - 1 + line for line in numbers}


def _is_docstring(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else node
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _places(lines: Iterable[SourceLine]) -> Iterator[Place]:
    """Yield a place for all lines that follow each other and are alike."""
    place: Place | None = None
    for line in lines:
        number, is_new = line.after or 0, line.before is None
        if place and number == place.last + 1 and place.is_new is is_new:
            more = None if line.more is None else (place.more or 0.0) + line.more
            place = replace(place, last=number, more=more)
            continue
        if place:
            yield place
        place = Place(number, number, is_new, line.more)
    if place:
        yield place


ALIKE = 0.25
"""Relative difference up to which a function that came is taken for one that went, if both have
the same name in other modules or classes; and if both are in one module and called alike."""

CALLED_ALIKE = 0.01

MOST_CALLERS = 5


def explain(
    test_id: str, backend: str, metric: str, before: Accounts, after: Accounts
) -> Explanation:
    """Return the parts of a change; they sum to it, but for what is unnamed.

    Those of its causes come first, then the largest. If the cost fell, only code that differs is
    a cause.
    """
    parts = _with_moves(
        Part(
            function,
            owner_of_counted(function),
            before.functions.get(function, NOTHING),
            after.functions.get(function, NOTHING),
        )
        for function in sorted({*before.functions, *after.functions})
        if (function in before.functions or before.names_all)
        and (function in after.functions or after.names_all)
    )
    least = ROUNDING * max(abs(before.whole), abs(after.whole))
    suspects = [
        _with_reasons(part, before, after)
        for part in parts
        if abs(part.amount) > least or part.is_changed
    ]
    is_rise = after.whole > before.whole
    certain = (part for part in suspects if abs(part.amount) >= part.error)
    roles = {
        cause.function: cause.role
        for cause in causes({metric: certain})
        if is_rise or cause.role is Role.CHANGED
    }
    places = {name: place for place, name in enumerate(roles)}

    def order(part: Part) -> tuple[int, float, Function]:
        place = places.get(enclosing(part.function), len(places))
        return place, -abs(part.amount), part.function

    shown = (
        replace(part, role=roles.get(enclosing(part.function)))
        for part in suspects
        if abs(part.amount) > least
    )
    ordered = tuple(sorted(shown, key=order))
    return Explanation(test_id, backend, metric, before.whole, after.whole, ordered)


def _with_moves(parts: Iterator[Part]) -> list[Part]:
    """Join a function that came with one that went, if it only got another name or place."""
    every = list(parts)
    removed = [part for part in every if part.is_gone and part.before.amount]
    joined: dict[Function, Part] = {}
    for part in sorted(every, key=lambda part: -part.after.amount):
        if not part.is_new or not part.after.amount:
            continue
        fitting = [old for old in removed if _is_same(old, part)]
        if fitting:
            old = min(fitting, key=lambda old: abs(old.before.amount - part.after.amount))
            removed.remove(old)
            joined[part.function] = replace(part, before=old.before, moved_from=old.function)
    left = {part.moved_from for part in joined.values()}
    return [joined.get(part.function, part) for part in every if part.function not in left]


def _is_same(old: Part, new: Part) -> bool:
    """Whether a function that went is one that came, by its costs and by its name."""
    larger = max(old.before.amount, new.after.amount)
    if abs(old.before.amount - new.after.amount) > ALIKE * larger:
        return False
    if _last(old.function) == _last(new.function):
        return True
    calls = (old.before.calls or 0.0, new.after.calls or 0.0)
    is_called_alike = abs(calls[0] - calls[1]) <= CALLED_ALIKE * max(calls)
    return bool(calls[0]) and is_called_alike and module_of(old.function) == module_of(new.function)


def _last(function: Function) -> str:
    name = function.rpartition(":")[2].rpartition(".")[2]
    return "" if name.startswith("<") else name


def _with_reasons(part: Part, before: Accounts, after: Accounts) -> Part:
    """Add who calls the function more or less often, and how its source changed."""
    old = part.moved_from or part.function
    callers = _callers(before.callers.get(old, {}), after.callers.get(part.function, {}))
    one, other = before.sources.get(old), after.sources.get(part.function)
    source = None
    # If only one side's is known, the other one may be the same.
    if (one or part.is_new) and (other or part.is_gone) and (one or other):
        lines = (
            _per_call(before.lines.get(old), part.before),
            _per_call(after.lines.get(part.function), part.after),
        )
        source = source_change(one, other, *lines)
    return replace(part, callers=callers[:MOST_CALLERS], source=source)


def _callers(
    before: Mapping[Function, float], after: Mapping[Function, float]
) -> tuple[Caller, ...]:
    differing = [
        Caller(name, before.get(name, 0.0), after.get(name, 0.0))
        for name in sorted({*before, *after})
        if abs(after.get(name, 0.0) - before.get(name, 0.0)) > ROUNDING
    ]
    return tuple(sorted(differing, key=lambda caller: -abs(caller.after - caller.before)))


def _per_call(lines: Mapping[int, float] | None, cost: Cost) -> Mapping[int, float] | None:
    """Return how often instructions of each line ran in a call."""
    if not lines or not cost.calls:
        return None
    return {line: times / cost.calls for line, times in lines.items()}


NO_SOURCES = (
    "no sources of {side} are kept: they are in sessions with --schedprof-save, "
    "--schedprof-compare or --schedprof-against"
)
OTHER_PYTHON = "bytecodes of Python {before} and {after} differ for the same source"
NO_DETAIL = (
    "to see callers and lines too, run both sides with --schedprof-option counts.detail=true"
)
WHOLE_PROCESS = (
    "the sums have what workers and clients of the test's process ran of the same code, too"
)

Pair = tuple[KeptSide, KeptSide]
"""A test before and after."""


class Pairs:
    """The tests of a run, each with what its session compared it with; a baseline is read once."""

    def __init__(self, run: Path, directory: str, beside: Path | None = None) -> None:
        """Take a run that is compared with its own baselines, or with another run.

        Args:
            run: directory of the run.
            directory: where baselines are found by name.
            beside: the other run.
        """
        self._run, self._directory, self._beside = run, directory, beside
        self._known: dict[str, Mapping[str, list[KeptSide]]] = {}

    def of(self, test: KeptTest) -> Pair:
        """Return a test before and after.

        Raises:
            SettingsError: if it was compared with nothing, or with what is gone.
            SchedprofError: if that cannot be read.
        """
        after = KeptSide(test.result, test.path, Folder(str(self._run)))
        place = test.path / AGAINST
        if self._beside is None and (place / RESULT_FILE).is_file():
            return side_in(place), after
        return self._earlier(test.result), after

    def _earlier(self, result: Result) -> KeptSide:
        name, test = result.baseline, result.test_id
        if not (name or self._beside):
            raise SettingsError(
                f"schedprof: {test} was compared with nothing: give two runs or baselines to "
                "explain, A and B"
            )
        if name not in self._known:
            beside, run = self._beside, self._run
            sides = kept_sides(beside) if beside else sides_of(name, self._directory, before=run)
            self._known[name] = _by_test(sides)
        before = _nearest(self._known[name].get(test, ()), result)
        if before is None:
            raise SettingsError(f"schedprof: baseline {name!r} does not have {test}")
        if before.result.started_at == result.started_at:
            raise SettingsError(
                f"schedprof: {test} was saved over baseline {name!r}, which it was compared with"
            )
        return before


def _by_test(sides: Iterable[KeptSide]) -> Mapping[str, list[KeptSide]]:
    groups: dict[str, list[KeptSide]] = {}
    for side in sides:
        groups.setdefault(side.result.test_id, []).append(side)
    return groups


def _nearest(sides: Sequence[KeptSide], after: Result) -> KeptSide | None:
    """Return the side that a test is compared with; the newest if it is compared with none."""
    of_backends = measurements([side.result for side in sides])
    for backend in after.backends:
        candidates = of_backends.get((after.test_id, backend.backend), ())
        if before := choose(candidates, Measurement(after, backend))[0]:
            return next(side for side in sides if side.result is before.result)
    return max(sides, key=lambda side: side.result.started_at, default=None)


def pairs_of(before: str, after: str, directory: str) -> list[Pair]:
    """Return the tests that two sets of results have in common.

    Raises:
        BaselineError: if one cannot be read.
    """
    olds = _by_test(sides_of(before, directory, run_after(before, after, directory)))
    news = {side.result.test_id: side for side in sides_of(after, directory)}
    pairs = ((_nearest(olds.get(test, ()), side.result), side) for test, side in news.items())
    return [(old, new) for old, new in pairs if old]


def sides_of(spec: str, directory: str, before: Path | None = None) -> list[KeptSide]:
    """Return the results of a baseline or run, with the directories of those that are kept.

    A baseline has only a part of each record: the whole one is used where its run is kept.

    Args:
        spec: names the baseline or run.
        directory: where baselines are found by name.
        before: a run. If it is in a directory of runs that is named, the one before it is meant.
    """
    if (Path(spec) / RESULT_FILE).is_file():
        return [side_in(Path(spec))]
    place = kept_run(spec, directory, before)
    kept = {side.result.test_id: side for side in kept_sides(place)} if place else {}
    saved = folder_with_sources(spec, directory)
    return [
        kept[result.test_id]
        if result.test_id in kept and kept[result.test_id].result.started_at == result.started_at
        else KeptSide(result, run=saved)
        for result in load(spec, directory, other=before).results
    ]


def side_in(place: Path, result: Result | None = None) -> KeptSide:
    """Return one test of a run, or one of its sides, by its directory."""
    above = (parent for parent in place.absolute().parents if (parent / RUN_FILE).is_file())
    run = next(above, None)
    record = result or read_record(place / RESULT_FILE, Result)
    return KeptSide(record, place, Folder(str(run)) if run else None)


def kept_sides(place: Path) -> list[KeptSide]:
    """Return the tests of a run that have directories; none if it cannot be read."""
    try:
        run = find_run(place)
        return [KeptSide(test.result, test.path, run.folder) for test in run.tests()]
    except ArtifactError:
        return []


def why_regressed(tests: Iterable[KeptTest], pairs: Pairs) -> list[Explanation]:
    """Explain what regressed in tests of a run; what cannot be explained is left out."""
    explained: list[Explanation] = []
    for test in tests:
        with suppress(SchedprofError):
            explained += _why(test, pairs)
    return explained


def _why(test: KeptTest, pairs: Pairs) -> Iterator[Explanation]:
    regressed = {
        comparison.backend
        for comparison in test.result.comparisons
        if comparison.verdict is Verdict.FAIL
        if comparison.tasks is None or test.result.is_own_virtual  # others only per task
    }
    if regressed:
        for explanation in explanations(pairs.of(test)):
            if explanation.backend in regressed and explanation.parts:
                yield explanation


def explanations(pair: Pair, metric: str = "") -> Iterator[Explanation]:
    """Yield an explanation for each backend and metric that were measured on both sides."""
    before, after = pair
    for measured in after.result.backends:
        if earlier := before.result.counterpart(measured):
            for name in metrics_of(measured):
                if metric in ("", name):
                    yield from _explanation(pair, earlier, measured, name)


def _explanation(
    pair: Pair, earlier: BackendResult, measured: BackendResult, metric: str
) -> Iterator[Explanation]:
    """Yield the explanation of one metric, if functions of both sides are known."""
    sides = list(zip(pair, (earlier, measured), strict=True))
    measurements = [Measurement(side.result, backend) for side, backend in sides]
    is_per_round = are_whole_bodies(*measurements) and tasks_of_rounds(*measurements) is not None
    before, after = (
        accounts_of(side, backend, metric, per_round=is_per_round) for side, backend in sides
    )
    if before.functions and after.functions:
        test = pair[1].result.test_id
        explanation = explain(test, measured.backend, metric, before, after)
        notes = tuple(_notes(pair, measured, before, after))
        yield replace(explanation, notes=notes, per="round" if is_per_round else "task")


def _notes(pair: Pair, measured: BackendResult, before: Accounts, after: Accounts) -> Iterator[str]:
    """Yield what is not known, and how to learn it."""
    pythons = [side.result.environment.minor_python for side in pair]
    if measured.backend == COUNTS and len(set(pythons)) > 1:
        yield OTHER_PYTHON.format(before=pythons[0], after=pythons[1])
    if measured.backend == COUNTS and Measurement(pair[1].result, measured).is_in_process:
        yield WHOLE_PROCESS
    missing = [name for name, side in (("A", before), ("B", after)) if not side.sources]
    if missing:
        yield NO_SOURCES.format(side=" and of ".join(missing))
    if measured.backend == COUNTS and not (before.lines and after.lines):
        yield NO_DETAIL


def why_stepped(series: Iterable[Series], place: Path) -> Iterator[Explanation]:
    """Explain each step of the scheduler as a whole, the newest of each series first.

    Runs that are not kept at this place, or cannot be read, are left out.
    """
    kept = {run.record.run_id: run for run in runs_in(place)}
    for one_series in series:
        if one_series.subject or one_series.metric not in DIVIDED:
            continue
        for step in reversed(one_series.steps):
            ids = (one_series.figures[place].moment.run_id for place in (step.at - 1, step.at))
            before, after = map(kept.get, ids)
            if before and after:
                yield from _between(before, after, one_series)


def _between(before: KeptRun, after: KeptRun, series: Series) -> Iterator[Explanation]:
    with suppress(SchedprofError):
        test_id = series.setting.test_id
        pair = (side_in(before.test(test_id).path), side_in(after.test(test_id).path))
        for explanation in explanations(pair, series.metric):
            if explanation.backend == series.setting.backend:
                yield explanation
