"""Backends are named by their own files alone: no list elsewhere must be edited to add one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_schedprof
from pytest_schedprof.backends.registry import BUILTIN

PACKAGE = Path(pytest_schedprof.__file__).parent
ROOMS_OF_BACKENDS = {"agent", "backends"}

ALLOWED = {
    "measuring/ancestor.py": {"pyspy", "viztracer"},  # public functions, an option of py-spy
    "measuring/profile.py": {"pyspy"},  # the default of a public function
    "measuring/options.py": {"pyspy", "counts"},  # the defaults of commands and options
    "judge/owners.py": {"viztracer"},  # functions of that package belong to the profiler
    "model/metric.py": {"instructions", "intake", "objects"},  # metrics and a phase of that name
    "judge/accounts.py": {"counts"},  # whose files are read
    "formats/counted.py": {"counts", "decisions"},  # whose files are read
    "formats/chrometrace.py": {"viztracer"},  # whose format is read
    "formats/workload.py": {"counts"},  # a column of a file
    "replay/hearing.py": {"counts"},  # that column
}
"""Names in text that is no list of backends, by file, with the reason."""

ENGLISH = {"counts", "decisions", "instructions", "intake", "objects", "stalls"}
"""Names that are words of English too: meant where they stand alone or are part of syntax."""

TEXTS_OF_HELP = ("EXAMPLE", "MARKER_HELP")


def modules() -> list[Path]:
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in ROOMS_OF_BACKENDS
    ]


def illustrations(tree: ast.Module) -> Iterator[ast.expr]:
    """Docstrings, help of options, and examples of a command's help: they only illustrate."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield node.value
        if isinstance(node, ast.keyword) and node.arg == "help":
            yield node.value
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in TEXTS_OF_HELP:
            yield node.value


def names_in(source: str) -> set[str]:
    """Backends that string literals name, but for those that only illustrate."""
    if not any(name in source for name in BUILTIN):
        return set()
    tree = ast.parse(source)
    left_out = {id(part) for expression in illustrations(tree) for part in ast.walk(expression)}
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in left_out
        for name in BUILTIN
        if name in node.value and is_named(name, node.value)
    }


def is_named(name: str, text: str) -> bool:
    if name in ENGLISH:
        return bool(re.search(rf"(^|[,.'\"=(]){name}($|[,.'\"=)])", text))
    return bool(re.search(rf"\b{name}\b", text))


def test_no_other_room_names_a_backend() -> None:
    named = {
        path.relative_to(PACKAGE).as_posix(): names_in(path.read_text(encoding="utf-8"))
        for path in modules()
    }
    assert {name: backends for name, backends in named.items() if backends} == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        'KNOWN = ("pyspy", "cputime")',
        'if backend == "memray": pass',
        'raise ValueError(f"{name} cannot; pyspy can")',
        'ENDING = ".viztracer.json"',
        'DEFAULT = "counts"',
        'TEXT = "give cputime, or counts"\nOTHER = "cprofile"',
    ],
)
def test_names_are_found(source: str) -> None:
    assert names_in(source)


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """As pyspy does."""',
        'add("--backend", help="such as pyspy")',
        'TEXT = "a run, of which the newest counts"',
        'FILE = "pyspying"',
    ],
)
def test_illustrations_and_other_words_are_left_alone(source: str) -> None:
    assert names_in(source) == set()
