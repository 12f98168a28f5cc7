"""How the agent travels to where it runs: as source, with every call.

So nothing of this package need be installed there, Python may be of another minor version, and
nobody has to keep in mind who has it already.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest_schedprof.agent as agent

HERE = agent.__name__
DIRECTORY = Path(str(agent.__file__)).parent
IMPORT = re.compile(r"^from \.(\w*) import ([\w, ]+)$", re.MULTILINE)


class Sent:
    """Arrives as what a call returns that is made where it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._made = (function, arguments)

    def __reduce__(self) -> Any:
        return self._made

    def __call__(self, *arguments: Any) -> Sent:
        """What comes of calling it there."""
        return Sent(self, *arguments)


def is_of_agent(function: Callable[..., Any]) -> bool:
    """Whether it is ours; what third parties and tests bring travels by value."""
    return function.__module__.startswith(f"{HERE}.") and "<locals>" not in function.__qualname__


def as_source(function: Callable[..., Any]) -> Sent:
    """One of the agent's functions."""
    name = function.__module__.rpartition(".")[2]
    module = _unpacker()(f"{package()}.{name}", package(), _luggage(name))
    return Sent(getattr, module, function.__qualname__)


def _unpacker() -> Sent:
    """What gives a module, by itself where the module is already."""
    path, text = _sources()["unpack"]
    names = f"(lambda names: exec(compile({text!r}, {path!r}, 'exec'), names) or names)({{}})"
    known = "__import__('sys').modules.get(module)"
    return Sent(
        eval,
        f"lambda module, package, sources: {known} or {names}['unpack'](module, package, sources)",
    )


@cache
def _luggage(name: str) -> dict[str, tuple[str, str]]:
    """Path and text of a module, of the package, and of what the module imports of it."""
    found, wanted = {"__init__"}, [name]
    while wanted:
        found.add(each := wanted.pop())
        wanted += [name for name in _imported(_sources()[each][1]) if name not in found]
    return {
        f"{package()}.{each}".removesuffix(".__init__"): _sources()[each] for each in sorted(found)
    }


def _imported(text: str) -> list[str]:
    """`from .a import x` and `from . import a, b`."""
    return [
        name
        for module, names in IMPORT.findall(text)
        for name in ([module] if module else names.split(", "))
    ]


@cache
def package() -> str:
    """The agent's name there: another for another text, so that versions do not meet."""
    texts = "".join(text for _, text in _sources().values())
    return f"schedprof_agent_{hashlib.sha256(texts.encode()).hexdigest()[:8]}"


@cache
def _sources() -> dict[str, tuple[str, str]]:
    return {
        path.stem: (str(path), path.read_text(encoding="utf-8"))
        for path in sorted(DIRECTORY.glob("*.py"))
    }
