"""Function patterns: `module:qualname` where `*` stands for any run and `?` for one character."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression; every other character stands for itself."""
    return re.compile("".join(_translate(character) for character in pattern), re.DOTALL)


def _translate(character: str) -> str:
    return {"*": ".*", "?": "."}.get(character) or re.escape(character)


def has_wildcard(pattern: str) -> bool:
    """Whether the pattern can mean more than one function."""
    return "*" in pattern or "?" in pattern
