"""What is drawn for a test in turns: late messages, slow rounds of loops, and whose turn it is.

A draw hangs on the seed, on its place and on its number there, and on no other draw. So each of
them can be left out while the others stay, and the fewest with which a test still fails tell what
must come together.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import NamedTuple

from pytest_schedprof.virtual.relay import NS, Event, Runner

LEAST_NS, RANGE = 100_000, 1000.0
"""What is late is so by 0.1 to 100 ms, and as often by 0.1 to 1 as by 10 to 100."""

SHORT_RANGE = 50.0
"""The longest delays are then so short that their order can matter, and hardly a clock."""

OF_MESSAGES, OF_ROUNDS, OF_TURNS = 0.1, 0.02, 0.1
"""Parts of the messages and of the rounds that are late, and of the turns that another one has."""


class Draw(NamedTuple):
    """A place, and how often something could happen there before."""

    place: str
    number: int


class Weather:
    """What a seed draws; of it only what is kept, if that is given.

    A smaller range makes the delays shorter, and leaves the order of their lengths.
    """

    def __init__(
        self, seed: int, kept: Collection[Draw] | None = None, range_: float = RANGE
    ) -> None:
        self.seed, self.kept, self.range = seed, kept, range_
        self.drawn: dict[Draw, Event] = {}
        """What happened otherwise than with nothing drawn."""
        self._numbers: Counter[str] = Counter()

    def delay(self, part: float, place: str, now: int, text: Callable[[], str]) -> int:
        """Return by how many nanoseconds something is late, which mostly is not at all."""
        draw, chance = self._draw(part, place)
        if chance is None:
            return 0
        delay = int(LEAST_NS * self.range**chance)
        self.drawn[draw] = Event(now, "", f"{text()} is {delay / NS * 1000:.3g} ms late")
        return delay

    def next_of(self, ready: deque[Runner], now: int) -> Runner:
        """Take the runner that has the next turn from those that can run."""
        if len(ready) == 1:
            return ready.popleft()
        draw, chance = self._draw(OF_TURNS, "turn")
        place = 0 if chance is None else 1 + int(chance * (len(ready) - 1))
        runner = ready[place]
        if place:
            self.drawn[draw] = Event(now, "", f"{runner.name} runs before {ready[0].name}")
        del ready[place]
        return runner

    def _draw(self, part: float, place: str) -> tuple[Draw, float | None]:
        """Return a draw, and a number from 0 to 1 if its chance comes true."""
        draw = Draw(place, self._numbers[place])
        self._numbers[place] += 1
        if self.kept is not None and draw not in self.kept:
            return draw, None
        text = f"{self.seed} {draw.number} {place}"
        value = int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48
        return draw, value / part if value < part else None


def fewest(
    draws: Sequence[Draw], fails: Callable[[Collection[Draw]], bool], most: int
) -> Sequence[Draw]:
    """Return few of the draws with which a test still fails, after so many trials at most.

    Parts are left out, each half as large as before (Zeller's delta debugging); the last ones
    first, since what comes after a failure has no part in it.
    """
    draws, size = list(draws), -(-len(draws) // 2)
    while size:
        for end in range(len(draws), 0, -size):
            if not most:
                return draws
            most -= 1
            rest = [*draws[: max(end - size, 0)], *draws[end:]]
            if fails(rest):
                draws = rest
        size //= 2
    return draws
