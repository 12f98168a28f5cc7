"""A test that runs in turns on several schedulers: in which order, how often, what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

from pytest_schedprof.assessment import Assessment, assess
from pytest_schedprof.comparison.policy import DEFAULT_POLICY
from pytest_schedprof.errors import SchedprofError, as_own
from pytest_schedprof.gates.reference import InTurns
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.plan import Plan, Take
from pytest_schedprof.sides import AGAINST, NULL, Side
from pytest_schedprof.storage.records import encode
from pytest_schedprof.storage.run_directory import make_directory, write

Record = Callable[[Side], Result]
"""Makes a record of what a side's assessment holds."""

Compare = Callable[[InTurns, Assessment], "tuple[Comparison, ...]"]
"""Holds what was seen on the scheduler under test against another side."""


class Turns:
    """The other sides of one test; a test that is not compared in turns has none."""

    def __init__(self, plan: Plan, here: Side, others: Mapping[str, Side], record: Record) -> None:
        self._plan = plan
        self._here = here
        self._others = others
        self._record = record
        self._policy = DEFAULT_POLICY
        self._whole_pairs = 0

    def __bool__(self) -> bool:
        return bool(self._others)

    @property
    def sides(self) -> list[Side]:
        """All of them; the one that is compared with comes first: A B, B A."""
        return [*self._others.values(), self._here]

    def takes(self, compare: Compare) -> Iterator[tuple[Take, Side]]:
        """Each run of the body, until the test is decided or its budget spent."""
        begun = time.monotonic()
        for pair in count(1):
            for side in self._plan.looks.order(self.sides, pair):
                yield from ((take, side) for take in self._plan.takes_of_a_turn)
            self._whole_pairs = pair
            if self._is_enough(pair, time.monotonic() - begun, compare):
                return

    def break_off(self) -> None:
        """Of a test that is interrupted, rounds count that all sides have had whole."""
        whole = self._whole_pairs * len(self._plan.takes_of_a_turn)
        for side in self.sides if whole else ():
            del side.recorder.rounds[whole:]

    def _is_enough(self, pairs: int, elapsed_s: float, compare: Compare) -> bool:
        """Whether more rounds could tell more, and there is time for them."""
        looks = self._plan.looks
        self._policy = looks.policy(DEFAULT_POLICY, pairs, elapsed_s)
        is_broken = any(side.recorder.errors for side in self.sides)
        if is_broken or not looks.has_time_for_more(pairs, elapsed_s):
            return True
        return looks.is_look(pairs) and self._is_decided(compare)

    def _is_decided(self, compare: Compare) -> bool:
        side = self._others[AGAINST]
        try:
            side.assessment = assess(side.recorder, (), None)
            found = compare(self.reference(AGAINST), assess(self._here.recorder, (), None))
        except Exception as error:  # whatever it is, it is no failure of the test's body
            side.recorder.errors.append(as_own(error))
            return True
        verdicts = {each.verdict for each in found}
        return Verdict.FAIL in verdicts or verdicts == {Verdict.PASS}

    def store(self, directory: Path | None) -> list[SchedprofError]:
        """The other sides' files and records, each in a directory of its own; their troubles."""
        troubles = []
        for name, side in self._others.items():
            place = directory and directory / name
            if place is not None:
                make_directory(place)
            side.assessment = assess(side.recorder, (), place)
            side.gathering.keep(place, side.assessment.backends)
            if place is not None:
                write(place / "result.json", encode(self._record(side)))
            troubles += [_named(error, side.name) for error in side.assessment.errors]
        return troubles

    def reference(self, name: str) -> InTurns:
        """One of the other sides, as what is measured is held against it."""
        side = self._others[name]
        return InTurns(side.name, self._record(side), self._policy)

    @property
    def null(self) -> InTurns | None:
        """The side of the same code, if there is one."""
        return self.reference(NULL) if NULL in self._others else None


def _named(error: SchedprofError, side: str) -> SchedprofError:
    """The error, with the side on which it was."""
    named = SchedprofError(f"schedprof: {side}: {str(error).removeprefix('schedprof: ')}")
    named.__cause__ = error
    return named
