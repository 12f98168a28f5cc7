"""Read which modules the package imports, from its source by `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest_schedprof

PACKAGE = Path(pytest_schedprof.__file__).parent
NAME = "pytest_schedprof"

AGENT_MAY_IMPORT = {"distributed", "dask", "tornado", "psutil", "cloudpickle", "msgpack"}
"""Packages that every scheduler has, because distributed itself needs them."""

NEWER_STDLIB = {"profiling"}
"""Modules of the standard library that came later than Python 3.11, imported where they are."""


@dataclass(frozen=True)
class Import:
    """One imported name, in full: a module, or a module and a name imported from it."""

    name: str
    typing_only: bool

    @property
    def root(self) -> str:
        return self.name.partition(".")[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def is_typing_only(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def walk(nodes: list[ast.stmt], package: str, typing_only: bool = False) -> Iterator[Import]:
    """Yield every import at any depth: in functions, classes and branches."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).strip(".")
            yield Import(base, typing_only)
            yield from (Import(f"{base}.{alias.name}", typing_only) for alias in node.names)
        else:
            typed = typing_only or (isinstance(node, ast.If) and is_typing_only(node))
            body = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            orelse = node.orelse if isinstance(node, ast.If) else []
            yield from walk([child for child in body if child not in orelse], package, typed)
            yield from walk(orelse, package, typing_only)
            for block in ast.iter_child_nodes(node):
                if isinstance(block, (ast.ExceptHandler, ast.match_case)):
                    yield from walk(block.body, package, typing_only)


@cache
def imports_of(module: str) -> set[Import]:
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return set(walk(ast.parse(path.read_text(encoding="utf-8")).body, package))


def modules_imported_by_name(module: str) -> set[str]:
    """Modules that a module passes to `import_module` as a literal."""
    source = MODULES[module].read_text(encoding="utf-8")
    if "import_module" not in source:
        return set()
    tree = ast.parse(source)
    return {name for node in ast.walk(tree) if (name := _name_given_to_import_module(node))}


def _name_given_to_import_module(node: ast.AST) -> str:
    if not (isinstance(node, ast.Call) and node.args):
        return ""
    function = ast.unparse(node.func)
    argument = node.args[0]
    if function not in ("import_module", "importlib.import_module"):
        return ""
    is_literal = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    return str(ast.literal_eval(argument)) if is_literal else ""
