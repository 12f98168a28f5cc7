"""Why a test fails under a seed: what must come together for it, and whose race that is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from traceback import walk_tb
from typing import NamedTuple

import pytest

from pytest_schedprof.plugin.calm import clean_process, forget_runs, virtual_time
from pytest_schedprof.plugin.stash import STORIES
from pytest_schedprof.virtual.races import (
    Statement,
    calling_before,
    let_pass_a_second,
    statement_of,
)
from pytest_schedprof.virtual.relay import NS, RefusalError, Relay
from pytest_schedprof.virtual.weather import LEAST_NS, SHORT_RANGE, Draw, Weather, fewest

TRIALS, TRIALS_S = 60, 60.0
"""Runs of a test that failed under a seed, at most, to find the fewest draws with which it does,
and seconds after which none begins."""

SHOWN = 10
"""Draws that are shown."""


class Failure(NamedTuple):
    """How a test fails."""

    error: type[BaseException]
    statement: Statement | None
    """That of the test's own file which raised the error, if one did."""


def story(item: pytest.Item, seed: int, error: BaseException) -> str:
    """Return in words what must come together for a test to fail as it did under a seed.

    The search takes up to a minute: under many seeds a test says it once for each place.
    """
    lines = [(frame.f_code, number) for frame, number in walk_tb(error.__traceback__)]
    place = (item.location[:2], type(error), *lines)
    first = item.config.stash.setdefault(STORIES, {}).setdefault(place, item.name)
    if first != item.name:
        return f"it fails where {first} does, which says why"
    level = logging.root.manager.disable
    logging.disable()  # of many runs nobody would read it
    try:
        return _story(item, seed)
    finally:
        logging.disable(level)


def _story(item: pytest.Item, seed: int) -> str:
    if _failure(item, Weather(seed, ())):
        return "it fails with nothing drawn, too"
    last, end = Weather(seed), time.monotonic() + TRIALS_S
    failure = _failure(item, last)
    if failure is None:
        return "it does not fail each time: --schedprof-check names what differs between its runs"

    def fails(kept: Collection[Draw]) -> bool:
        nonlocal last
        trial = Weather(seed, frozenset(kept))
        if is_same := time.monotonic() < end and _failure(item, trial) == failure:
            last = trial
        return is_same

    fewest([*last.drawn], fails, TRIALS)
    happened = [f"  {event}" for event in last.drawn.values()]
    more = [f"  and {len(happened) - SHOWN} more"] if len(happened) > SHOWN else []
    kind = _kind(item, seed, frozenset(last.drawn), failure.statement)
    return "\n".join(["it passes with nothing drawn, and fails if", *happened[:SHOWN], *more, kind])


def _kind(
    item: pytest.Item, seed: int, draws: Collection[Draw], statement: Statement | None
) -> str:
    """Return in words whose race it is, by a run that waits and one with short delays."""
    waiting = f"waits for a second before {statement}"
    if statement and _looks_too_early(item, partial(Weather, seed, draws), statement):
        return f"A race of the test, which looks too early: it passes if it {waiting}."
    if not _failure(item, Weather(seed, draws, SHORT_RANGE)):
        return (
            "A race against a clock (a sleep, a time-out, a heartbeat): it passes if nothing is "
            f"more than {LEAST_NS * SHORT_RANGE / NS * 1000:g} ms late."
        )
    addition = f" It fails also if it {waiting}." if statement else ""
    return f"A race of the code: the order alone matters, however short the delays are.{addition}"


def _looks_too_early(
    item: pytest.Item, weather: Callable[[], Weather], statement: Statement
) -> bool:
    """Whether the statement passes if the test waits before it at the visit that failed."""

    def visits(chosen: int) -> tuple[int, Failure | None]:
        number = 0

        def visit(relay: Relay) -> None:
            nonlocal number
            number += 1
            if number == chosen:
                let_pass_a_second(relay)

        failure = _failure(item, weather(), statement, visit)
        return number, failure

    failed_at, _ = visits(0)
    last, failure = visits(failed_at)
    return failure is None or last > failed_at


def _failure(
    item: pytest.Item,
    weather: Weather,
    statement: Statement | None = None,
    visit: Callable[[Relay], None] = lambda relay: None,
) -> Failure | None:
    """Run the body of a test, with visits before a statement; return how it fails, if it does."""
    forget_runs(item)
    try:
        with clean_process(), virtual_time(weather) as relay:
            visiting = partial(visit, relay)
            with calling_before(statement, visiting) if statement else nullcontext():
                item.runtest()
    except (Exception, pytest.fail.Exception) as error:
        return Failure(type(error), statement_of(error, str(item.path)))
    except (RefusalError, pytest.skip.Exception):
        return None
    return None
