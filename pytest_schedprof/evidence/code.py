"""The source code of what is measured, for readers of evidence."""

from __future__ import annotations

import inspect
import sys
from textwrap import dedent
from types import CodeType
from typing import Any


def source_of(thing: Any) -> str:
    """Return the source of a function, or of code; empty if there is none, as of a doctest."""
    try:
        if isinstance(thing, CodeType) and thing.co_name == "<module>":
            return "".join(inspect.findsource(thing)[0])
        return dedent(inspect.getsource(thing))
    except Exception:  # besides what it documents, inspect raises errors of its tokenizer
        return ""


def calling_code() -> CodeType:
    """Return the code that called the caller of this function, also through an `ExitStack`."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") == "contextlib":
        frame = frame.f_back
    return frame.f_code
