"""Find the lines of functions in the text of a module."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

Lines: TypeAlias = "tuple[int, int]"
"""First and last line, from 1 on; decorators are included."""

Definition = (ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of(source: str, names: Collection[str]) -> Mapping[str, Lines]:
    """Return the lines of the functions of these qualified names that are in a module's text.

    Of several definitions of a name, as in the branches of an `if`, all lines are taken together.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[str, Lines] = {}
    for name, (first, last) in _defined(tree, ""):
        if name in names:
            known = found.get(name, (first, last))
            found[name] = (min(first, known[0]), max(last, known[1]))
    return found


def _defined(node: ast.AST, prefix: str) -> Iterator[tuple[str, Lines]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.ClassDef):
            yield from _defined(each, f"{prefix}{each.name}.")
        elif isinstance(each, Definition):
            name = f"{prefix}{each.name}"
            first = min([each.lineno, *(one.lineno for one in each.decorator_list)])
            yield name, (first, each.end_lineno or each.lineno)
            yield from _defined(each, f"{name}.<locals>.")
        else:
            yield from _defined(each, prefix)


def files_of(module: str) -> tuple[str, ...]:
    """Return the paths at which a module's text may be, below the root of its package."""
    path = module.replace(".", "/")
    return tuple(f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__init__.py"))
