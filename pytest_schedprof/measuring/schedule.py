"""The schedule of one test: which side runs the body next, with which backends, and how often.

A test with one side makes the runs of its plan. A test that is compared in turns runs on its sides
alternately until an interim check decides it or its budget is spent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import count

from pytest_schedprof.comparison.policy import DEFAULT_POLICY
from pytest_schedprof.errors import as_own
from pytest_schedprof.measuring.judging import is_decided
from pytest_schedprof.measuring.plan import BodyRun, Plan
from pytest_schedprof.measuring.sides import Side, Sides


class Schedule:
    """The runs of a test's body, and how far they are."""

    def __init__(self, plan: Plan, sides: Sides) -> None:
        self.sides = sides
        self.policy = DEFAULT_POLICY
        """How the sides are compared: each interim check takes its part of the error rate."""
        self.done = 0
        """Runs of the body that have ended, over all sides."""
        self.planned = 0 if sides.against else len(plan.body_runs)
        """Runs that there will be; 0 if they go on until the test is decided."""
        self.budget_s = plan.settings.budget
        """Seconds that a test may take to be decided."""
        self._plan = plan
        self._started = time.monotonic()
        self._whole_pairs = 0
        """Rounds that every side has completed."""

    def body_runs(self) -> Iterator[tuple[BodyRun, Side]]:
        """Yield each run of the body with the side that it runs on."""
        for body_run, side in self._runs():
            yield body_run, side
            self.done += 1

    def once(self) -> AbstractContextManager[None]:
        """Record a body that can run only once: with all backends side by side."""
        return self.sides.here.run(BodyRun(0, self._plan.backends, has_evidence=True))

    def break_off(self) -> None:
        """Discard rounds that not every side completed, because the test is interrupted."""
        whole = self._whole_pairs * len(self._plan.runs_of_a_round)
        for side in self.sides.all if whole else ():
            del side.recorder.rounds[whole:]

    @property
    def tasks(self) -> int:
        """Tasks that the recorded runs processed, over all sides."""
        return sum(side.recorder.tasks for side in self.sides.all)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the test began."""
        return time.monotonic() - self._started

    def _runs(self) -> Iterator[tuple[BodyRun, Side]]:
        if self.sides.against is None:
            return ((body_run, self.sides.here) for body_run in self._plan.body_runs)
        return self._in_turns(self.sides.against)

    def _in_turns(self, against: Side) -> Iterator[tuple[BodyRun, Side]]:
        begun = time.monotonic()
        for pair in count(1):
            for side in self._plan.interim_checks.order(self.sides.all, pair):
                yield from ((body_run, side) for body_run in self._plan.runs_of_a_round)
            self._whole_pairs = pair
            if self._is_enough(pair, time.monotonic() - begun, against):
                return

    def _is_enough(self, pairs: int, elapsed_s: float, against: Side) -> bool:
        """Whether more rounds would tell nothing, or there is no time for them."""
        checks = self._plan.interim_checks
        self.policy = checks.policy(DEFAULT_POLICY, pairs, elapsed_s)
        is_broken = any(side.recorder.errors for side in self.sides.all)
        if is_broken or not checks.has_time_for_more(pairs, elapsed_s):
            return True
        return checks.is_due(pairs) and self._is_decided(against)

    def _is_decided(self, against: Side) -> bool:
        try:
            return is_decided(self._plan, self.sides.here, against, self.policy)
        except Exception as error:  # it must not look like a failure of the test's body
            against.recorder.errors.append(as_own(error))
            return True
