"""Sends the agent to the process where it runs: as source, with every call.

So nothing of this package need be installed there, Python may be of another minor version, and
nobody has to keep track of which process has the agent already.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest_schedprof.agent as agent

HERE = agent.__name__
DIRECTORY = Path(str(agent.__file__)).parent


class Sent:
    """A call that is made where this object is unpickled; it arrives as the call's result."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._made = (function, arguments)

    def __reduce__(self) -> Any:
        return self._made

    def __call__(self, *arguments: Any) -> Sent:
        """Return a call of the result, which is made there too."""
        return Sent(self, *arguments)


def is_of_agent(function: Callable[..., Any]) -> bool:
    """Whether a function is the agent's; those of third parties and tests travel by value."""
    return function.__module__.startswith(f"{HERE}.") and "<locals>" not in function.__qualname__


def as_source(function: Callable[..., Any]) -> Sent:
    """Return one of the agent's functions, ready to be pickled."""
    return Sent(getattr, as_module(function.__module__.rpartition(".")[2]), function.__qualname__)


def as_module(name: str) -> Sent:
    """Return one of the agent's modules with those that it imports, ready to be pickled."""
    return _unpacker()(f"{package()}.{name}", package(), _luggage(name))


def _unpacker() -> Sent:
    """Return a function that makes a module of source, unless the process has the module."""
    path, text = _sources()["unpack"]
    names = f"(lambda names: exec(compile({text!r}, {path!r}, 'exec'), names) or names)({{}})"
    known = "__import__('sys').modules.get(module)"
    return Sent(
        eval,
        f"lambda module, package, sources: {known} or {names}['unpack'](module, package, sources)",
    )


@cache
def _luggage(name: str) -> dict[str, tuple[str, str]]:
    """Paths and texts of a module, of the package, and of all that the module imports from it."""
    sources, names, left = _sources(), {"__init__"}, [name]
    while left:
        names.add(module := left.pop())
        left += relative_imports(sources[module][1]) & sources.keys() - names
    return {
        f"{package()}.{module}".removesuffix(".__init__"): sources[module]
        for module in sorted(names)
    }


def relative_imports(source: str) -> set[str]:
    """Return the names that a module of a flat package may mean by its relative imports.

    For `from . import a` these may be modules or names of the package itself.
    """
    imports = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.level == 1
    ]
    modules = {node.module.partition(".")[0] for node in imports if node.module}
    return modules | {name.name for node in imports if not node.module for name in node.names}


@cache
def package() -> str:
    """Name of the agent's package there, with a hash of its text, so that versions do not meet."""
    texts = "".join(text for _, text in _sources().values())
    return f"schedprof_agent_{hashlib.sha256(texts.encode()).hexdigest()[:8]}"


@cache
def _sources() -> dict[str, tuple[str, str]]:
    """Path and text of each module of the agent."""
    return {
        path.stem: (str(path), path.read_text(encoding="utf-8"))
        for path in sorted(DIRECTORY.glob("*.py"))
    }
