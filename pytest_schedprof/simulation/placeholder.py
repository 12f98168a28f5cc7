"""What stands for the result of a task that nobody computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Comes back to whoever fetches a result from a simulated cluster."""

    key: object
    nbytes: int
    """What the result was said to take."""

    def __sizeof__(self) -> int:
        return self.nbytes
