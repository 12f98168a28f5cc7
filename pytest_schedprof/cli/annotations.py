"""What got worse, as annotations of lines of code on GitHub."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.errors import printable
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.explanation import Explanation, Part
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import Result
from pytest_schedprof.report.changes import regressions, undecided
from pytest_schedprof.report.tables import describe
from pytest_schedprof.report.words import sentence, top_parts


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that got worse, or may have: in a function if it is known, else in a test."""

    verdict: Verdict
    """What comes of it: a failure, or a doubt."""
    test_id: str
    text: str
    function: Function = ""
    file: str = ""
    """File of the function as the scheduler had loaded it; empty if it is not known."""
    first: int = 0
    """Lines of that file; 0 if they are not known."""
    last: int = 0


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark at lines of a file in the checkout."""

    remark: Remark
    file: str
    """Path below the root of the checkout."""
    first: int
    last: int


MOST_FUNCTIONS = 3
"""Functions that are told for each figure that regressed."""


def remarks_of(results: Sequence[Result], explained: Sequence[Explanation]) -> list[Remark]:
    """Return failures, then doubts.

    Args:
        results: one for each profiled test of the run.
        explained: why figures regressed.
    """
    remarks = [remark for result in results for remark in _of_test(result, explained)]
    return sorted(remarks, key=lambda remark: remark.verdict is not Verdict.FAIL)


def _of_test(result: Result, explained: Sequence[Explanation]) -> Iterator[Remark]:
    for comparison in (comparison for comparison in result.comparisons if comparison.is_binding):
        if comparison.verdict is Verdict.FAIL:
            yield from _regressed(comparison, explained)
        elif comparison.reasons:  # not for single figures, of which there are some in each run
            text = f"undecided: {undecided(comparison)}"
            yield Remark(Verdict.INCONCLUSIVE, result.test_id, text)
    for limit in result.limits:
        if limit.verdict is not Verdict.PASS:
            subject = _named(finding.subject for finding in limit.findings[:1])
            yield Remark(limit.verdict, result.test_id, describe(limit), subject)
    yield from (Remark(Verdict.INCONCLUSIVE, result.test_id, text) for text in result.troubles)


def _regressed(comparison: Comparison, explained: Sequence[Explanation]) -> Iterator[Remark]:
    """Yield the functions that explain a regression; what regressed most if none is known."""
    measured = (comparison.test_id, comparison.backend)
    mine = [
        explanation
        for explanation in explained
        if (explanation.test_id, explanation.backend) == measured
    ]
    if rises := [remark for explanation in mine for remark in _rises(explanation)]:
        yield from rises
        return
    subject = _named(change.subject for change in comparison.of(Outcome.REGRESSED))
    text = f"regressed: {regressions(comparison)}"
    yield Remark(Verdict.FAIL, comparison.test_id, text, subject)


def _rises(explanation: Explanation) -> Iterator[Remark]:
    for part in [part for part in top_parts(explanation) if part.amount > 0][:MOST_FUNCTIONS]:
        text = f"{explanation.metric} per task: {sentence(explanation, part).replace('`', '')}"
        file, first, last = _place(part)
        yield Remark(Verdict.FAIL, explanation.test_id, text, part.function, file, first, last)


def _place(part: Part) -> tuple[str, int, int]:
    """Return the file and the dearest lines of a function; no lines if they are not known."""
    if part.source is None:
        return "", 0, 0
    if not part.source.places:
        return part.source.file, 0, 0
    dearest = part.source.places[0]
    return part.source.file, dearest.first, dearest.last


def _named(subjects: Iterable[str]) -> str:
    """Return the first that is a function, not an owner or the whole; empty if none is."""
    return next((subject for subject in subjects if ":" in subject), "")


MOST = 10
"""Errors, and warnings, that GitHub shows of one step."""

COMMANDS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning"}

INSTALLED = ("site-packages", "dist-packages")
"""Directories whose files belong to no project, even if they are in its checkout."""


def as_commands(annotations: Sequence[Annotation]) -> Iterator[str]:
    """Yield a workflow command for each annotation, and a notice if some are left out."""
    for verdict, name in COMMANDS.items():
        mine = [annotation for annotation in annotations if annotation.remark.verdict is verdict]
        yield from map(_command, mine[:MOST])
        if len(mine) > MOST:
            yield command("notice", f"{len(mine) - MOST} more {name}s: see the summary")


def _command(annotation: Annotation) -> str:
    place = {
        "file": annotation.file,
        "line": str(annotation.first),
        "endLine": str(annotation.last),
    }
    return command(
        COMMANDS[annotation.remark.verdict],
        annotation.remark.text,
        **place,
        title=_title(annotation),
    )


def _title(annotation: Annotation) -> str:
    return f"Scheduler performance, {annotation.remark.test_id}"


def command(name: str, text: str, **properties: str) -> str:
    """Return a workflow command, which no text can end or add a property to."""
    pairs = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{name}{' ' if pairs else ''}{pairs}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what ends a command or a property; `%` first, which begins the escapes."""
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return printable(text, keep="")


def annotations_of(remarks: Iterable[Remark], root: Path, working: Path) -> Iterator[Annotation]:
    """Yield each remark with its place: a function in the checkout, or else the test.

    Of several remarks that belong to functions elsewhere, a test gets only the first.

    Args:
        remarks: the gravest first.
        root: of the checkout.
        working: the directory in which the tests ran.
    """
    at_tests: set[tuple[str, Verdict]] = set()
    for remark in remarks:
        annotation = _at_function(remark, root, working)
        if annotation is None:
            if remark.function and (remark.test_id, remark.verdict) in at_tests:
                continue
            at_tests.add((remark.test_id, remark.verdict))
            annotation = _at_test(remark, root, working)
        yield annotation


def _at_function(remark: Remark, root: Path, working: Path) -> Annotation | None:
    """Return the place of the function; None if it is not in the checkout."""
    module, _, name = remark.function.partition(":")
    if remark.file and (file := _own(Path(remark.file), root)):
        if remark.first:
            return Annotation(remark, file, remark.first, remark.last)
        if line := _line_of(Path(remark.file), name):
            return Annotation(remark, file, line, line)
    below = module.replace(".", "/")
    for base in (working, root) if name else ():
        for start in ("", "src/"):
            for end in (".py", "/__init__.py"):
                path = base / f"{start}{below}{end}"
                if (file := _own(path, root)) and (line := _line_of(path, name)):
                    return Annotation(remark, file, line, line)
    return None


def _at_test(remark: Remark, root: Path, working: Path) -> Annotation:
    """Return the place of the test; the first line of its file if it is not found."""
    named, *names = remark.test_id.partition("[")[0].split("::")
    for base in (working, *working.parents):
        if file := _own(base / named, root):
            line = _line_of(base / named, ".".join(names)) or 1
            return Annotation(remark, file, line, line)
    return Annotation(remark, named, 1, 1)


def _own(path: Path, root: Path) -> str:
    """Return the path of a file below the checkout; empty if it is none of its own files."""
    try:
        below = path.resolve().relative_to(root.resolve())
    except (OSError, ValueError):
        return ""
    is_own = path.is_file() and not any(part in INSTALLED for part in below.parts)
    return below.as_posix() if is_own else ""


def _line_of(path: Path, name: str) -> int:
    """Return the first line of a function: marks on all its lines would hide them. 0 if none."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return 0
    return next((line for known, line in _functions(tree, "") if known == name), 0)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield the qualified names of functions, with their first lines, decorators included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = f"{prefix}{child.name}"
            yield name, min([child.lineno, *(line.lineno for line in child.decorator_list)])
            yield from _functions(child, f"{name}.<locals>.")
        else:
            yield from _functions(child, prefix)
