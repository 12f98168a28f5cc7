"""Random names that are the same in each run, and in releases that draw more or fewer of them."""

from __future__ import annotations

import random
import uuid


class RandomNames:
    """Draws the names of each place in the code by itself.

    Releases of dask differ in how many random names they draw beside those of tasks. If all were
    drawn one after the other, the same tasks would have other names in another release.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._places: dict[str, dict[int, random.Random]] = {}

    def draw(self, function: str, line: int) -> uuid.UUID:
        """Return the next name for a line of a function.

        Lines have other numbers in other releases: they count in the order of their first use.
        """
        function = function.replace("_", "")  # private in one release, public in another
        lines = self._places.setdefault(function, {})
        if line not in lines:
            lines[line] = random.Random(f"{self._seed}:{function}:{len(lines)}")
        return uuid.UUID(int=lines[line].getrandbits(128), version=4)
