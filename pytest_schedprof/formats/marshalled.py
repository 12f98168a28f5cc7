"""Reader of the values that pstats files consist of, in Python's own format `marshal`.

The standard library's reader is not used, because it trusts the sizes in a file: for a damaged one
it takes gigabytes of memory and many seconds, and it makes code objects.
"""

from __future__ import annotations

import struct
from typing import Any

INTERNED_BY_REFERENCE = 0x80
"""Flag of a value that later ones may refer to by its number."""

DEEPEST = 20
"""Levels of nesting: pstats has four."""

SHORT, LONG = struct.Struct("<B"), struct.Struct("<i")
FLOAT = struct.Struct("<d")
DIGIT_BITS = 15
"""Bits of each digit of a large number."""

SIZES = {
    "(": LONG, ")": SHORT, "a": LONG, "A": LONG, "u": LONG, "t": LONG, "z": SHORT, "Z": SHORT
}  # fmt: skip
END = object()
"""Marks the end of a dictionary."""


def read_marshalled(content: bytes) -> Any:
    """Return the value: dictionaries, tuples, texts and numbers.

    Raises:
        ValueError: for anything else.
    """
    try:
        return _Reader(content).value(0)
    except (struct.error, IndexError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged marshal data: {error}") from error


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._known: list[Any] = []

    def value(self, depth: int) -> Any:
        """Read the next value with all that is in it."""
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        code = self._bytes(1)[0]
        kind = chr(code & ~INTERNED_BY_REFERENCE)
        number = None
        if code & INTERNED_BY_REFERENCE:
            number = len(self._known)
            self._known.append(END)  # its place, before what is in it
        found = self._read(kind, depth)
        if number is not None:
            self._known[number] = found
        return found

    def _read(self, kind: str, depth: int) -> Any:
        if kind in SIZES:
            size = self._number(SIZES[kind])
            if kind in "()":
                return tuple([self._item(depth) for _ in range(self._checked(size))])
            return self._bytes(size).decode("utf-8", "surrogatepass")
        if kind == "{":
            return self._dictionary(depth)
        if kind == "r":
            return self._referred(self._number(LONG))
        if kind == "0":
            return END
        return self._amount(kind)

    def _amount(self, kind: str) -> int | float:
        if kind == "i":
            return self._number(LONG)
        if kind == "g":
            amount: float = FLOAT.unpack(self._bytes(FLOAT.size))[0]
            return amount
        if kind == "f":
            return float(self._bytes(self._number(SHORT)))
        if kind == "l":
            return self._large()
        raise ValueError(f"a value of kind {kind!r}")

    def _large(self) -> int:
        size = self._number(LONG)
        digits = struct.unpack(f"<{abs(size)}H", self._bytes(2 * abs(size)))
        number: int = sum(digit << DIGIT_BITS * at for at, digit in enumerate(digits))
        return -number if size < 0 else number

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        found = {}
        while (key := self.value(depth + 1)) is not END:
            found[key] = self._item(depth)
        return found

    def _item(self, depth: int) -> Any:
        found = self.value(depth + 1)
        if found is END:
            raise ValueError("an end without a beginning")
        return found

    def _referred(self, number: int) -> Any:
        if number < 0 or self._known[number] is END:
            raise ValueError("a value that refers to itself")
        return self._known[number]

    def _number(self, kind: struct.Struct) -> int:
        number: int = kind.unpack(self._bytes(kind.size))[0]
        return number

    def _bytes(self, size: int) -> bytes:
        start = self._at
        self._at += self._checked(size)
        return self._content[start : self._at]

    def _checked(self, size: int) -> int:
        """Return the size of what follows, if the file is long enough for it."""
        if not 0 <= size <= len(self._content) - self._at:
            raise ValueError("it ends too early")
        return size
