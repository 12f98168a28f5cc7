"""Choose which of several versions to measure next, and tell what the answers leave.

Versions are numbered from 0, which is good, to the last one, which is bad. Each version has a
weight: how much is expected of it. What is measured next halves the weight that is left: with equal
weights this is the binary search, and a version with most of the weight is measured with the one
before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate


class Answer(StrEnum):
    """What a version turned out to be."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
    """It could not be measured, or its figures leave the answer open."""


EXPECTED = 0.9
"""Part of the weight of the versions that are suspected, all together. The others share the rest,
so a suspicion that is wrong costs five runs more at most."""


@dataclass(frozen=True)
class Search:
    """The answers so far about versions between a good and a bad one."""

    last: int
    """Number of the bad version at the end."""
    suspicion: Mapping[int, float] = field(default_factory=dict)
    """Suspected versions, with amounts that tell how much one is suspected beside the others."""
    answers: Mapping[int, Answer] = field(default_factory=dict)

    def with_answer(self, number: int, answer: Answer) -> Search:
        """Return the search after one more answer."""
        return Search(self.last, self.suspicion, {**self.answers, number: answer})

    @property
    def bad(self) -> int:
        """The first version that is known to be bad."""
        return min((each for each in self.answers if self._is(each, Answer.BAD)), default=self.last)

    @property
    def good(self) -> int:
        """The last version before it that is known to be good."""
        known = (each for each in self.answers if self._is(each, Answer.GOOD) and each < self.bad)
        return max(known, default=0)

    @property
    def suspects(self) -> range:
        """The versions of which one is the first bad one."""
        return range(self.good + 1, self.bad + 1)

    def next(self) -> int | None:
        """Return the version to measure next; None if no other one can tell more."""
        unknown = [each for each in range(self.good + 1, self.bad) if each not in self.answers]
        before = list(accumulate(map(self._weight, self.suspects)))
        half = before[-1] / 2
        return min(
            self._apart(unknown),
            key=lambda number: abs(before[number - self.suspects.start] - half),
            default=None,
        )

    def _is(self, number: int, answer: Answer) -> bool:
        return self.answers[number] is answer

    def _weight(self, number: int) -> float:
        if not self._suspected:
            return 1.0
        own = EXPECTED * self.suspicion.get(number, 0.0) / self._suspected
        return own + (1 - EXPECTED) / self.last

    @cached_property
    def _suspected(self) -> float:
        return sum(self.suspicion.values())

    def _apart(self, unknown: Sequence[int]) -> Sequence[int]:
        """Prefer versions away from skipped ones, the further the more of them there are.

        Versions that do not build stand side by side: those between two skipped ones come last.
        """
        skipped = [each for each in self.suspects if self.answers.get(each) is Answer.SKIP]
        if not skipped:
            return unknown
        outside = [each for each in unknown if not skipped[0] < each < skipped[-1]] or unknown
        reach, far = 2 ** len(skipped), list[int]()
        while reach > 1 and not far:
            reach //= 2
            far = [each for each in outside if all(abs(each - one) >= reach for one in skipped)]
        return far
