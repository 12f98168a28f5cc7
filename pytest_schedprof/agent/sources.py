"""Reads the sources of functions from the files that the scheduler has loaded them from."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import CodeType
from typing import Any

from .names import functions_of

Text = tuple[str, int, str]
"""File, first line, and text of a function."""


def sources_of(names: Sequence[str]) -> dict[str, Text]:
    """Return the source of each function that has one."""
    left = set(names)
    texts: dict[str, Text] = {}
    for module in sorted({name.partition(":")[0] for name in names} & sys.modules.keys()):
        for qualname, code in functions_of(sys.modules[module]):
            name = f"{module}:{qualname}"
            if name in left and (text := text_of(code)):
                left.remove(name)
                texts[name] = (code.co_filename, code.co_firstlineno, text)
    return texts


def text_of(code: CodeType) -> str:
    """Return the lines of a code object; empty if its file cannot be read.

    They end with the last line of an instruction, so that no parser is needed.
    """
    lines = linecache.getlines(code.co_filename)
    last = max(_last_lines(code), default=0)
    return "".join(lines[code.co_firstlineno - 1 : last])


def _last_lines(code: CodeType) -> Iterator[int]:
    yield code.co_firstlineno
    yield from (line for _, _, line in code.co_lines() if line)
    yield from (end for _, end, _, _ in code.co_positions() if end)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _last_lines(constant)


def import_early(name: str, dask_scheduler: Any = None) -> None:
    """Import a module, or leave it if that is not possible: the test may need no function of it.

    A module that skips its tests raises no `Exception`.
    """
    with suppress(BaseException):
        importlib.import_module(name)
