"""Annotations for the lines of a pull request, as GitHub's workflow commands."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_schedprof.errors import printable
from pytest_schedprof.model.remark import Annotation, Remark
from pytest_schedprof.model.verdict import Verdict

MOST = 10
"""Errors, and warnings, that GitHub shows of one step."""

COMMANDS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning"}

INSTALLED = ("site-packages", "dist-packages")
"""Directories whose files belong to no project, even if they are in its checkout."""


def as_commands(annotations: Sequence[Annotation]) -> Iterator[str]:
    """Yield a workflow command for each annotation, and a notice if some are left out."""
    for verdict, name in COMMANDS.items():
        mine = [each for each in annotations if each.remark.verdict is verdict]
        yield from map(_command, mine[:MOST])
        if len(mine) > MOST:
            yield command("notice", f"{len(mine) - MOST} more {name}s: see the summary")


def _command(each: Annotation) -> str:
    place = {"file": each.file, "line": str(each.first), "endLine": str(each.last)}
    return command(COMMANDS[each.remark.verdict], each.remark.text, **place, title=_title(each))


def _title(each: Annotation) -> str:
    return f"Scheduler performance, {each.remark.test_id}"


def command(name: str, text: str, **properties: str) -> str:
    """Return a workflow command, which no text can end or add a property to."""
    told = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{name}{' ' if told else ''}{told}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what ends a command or a property; `%` first, which begins the escapes."""
    for each in f"%\r\n{more}":
        text = text.replace(each, f"%{ord(each):02X}")
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
        annotation = _of_function(remark, root, working)
        if annotation is None:
            if remark.function and (remark.test_id, remark.verdict) in at_tests:
                continue
            at_tests.add((remark.test_id, remark.verdict))
            annotation = _of_test(remark, root, working)
        yield annotation


def _of_function(remark: Remark, root: Path, working: Path) -> Annotation | None:
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


def _of_test(remark: Remark, root: Path, working: Path) -> Annotation:
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
