"""Lines of a terminal, with their markup as pytest names it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the terminal."""

    text: str
    markup: dict[str, bool] = field(default_factory=dict)
