"""Tables that take little room in a file: columns of numbers, and names by their number."""

from __future__ import annotations

from typing import Any


class Names(dict[Any, int]):
    """Numbers names in the order in which they are first asked for."""

    def __missing__(self, name: Any) -> int:
        self[name] = number = len(self)
        return number

    def told(self) -> list[str]:
        """Return the names in the order of their numbers."""
        return [str(name) for name in self]


class Table:
    """Rows that are written as columns."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.rows: list[list[Any]] = []

    def columns(self) -> dict[str, list[Any]]:
        """Return each column by its name."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.names)
        return {name: list(column) for name, column in zip(self.names, columns, strict=True)}
