"""Digests of code, which tell what two sides run differently, wherever their files are."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from types import CodeType

SIZE = 4
"""Bytes of a digest."""

HAS_DOCSTRING = 0x4000000
"""Flag of code whose first constant is its docstring; older Pythons keep that place for it."""

IS_FLAGGED = sys.version_info >= (3, 14)


def digests_of(codes: Iterable[CodeType]) -> str:
    """Return the digests of all code of one name, in order: a property has up to three."""
    return " ".join(sorted({_digest(code) for code in codes}))


@cache
def _digest(code: CodeType) -> str:
    """Return one code's digest; rounds ask for the same code again."""
    return blake2b(repr(_content(code)).encode("utf-8", "replace"), digest_size=SIZE).hexdigest()


def _content(code: CodeType) -> tuple[object, ...]:
    """Return what the code does: neither lines nor names of files, variables and the function."""
    constants = code.co_consts[_begins_with_docstring(code) :]
    return (
        code.co_code,
        tuple(map(_constant, constants)),
        code.co_names,
        code.co_flags & ~HAS_DOCSTRING,
        getattr(code, "co_exceptiontable", b""),
    )


def _begins_with_docstring(code: CodeType) -> bool:
    """Whether the first constant is the docstring, or None in its place."""
    if IS_FLAGGED:
        return bool(code.co_flags & HAS_DOCSTRING)
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")


def _constant(value: object) -> object:
    if isinstance(value, CodeType):
        return _content(value)
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    # The order of a set is that of the hash seed; equal numbers of two types are not the same.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
