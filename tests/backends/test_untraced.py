"""Tests of periodic callbacks that run as if no one counted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from distributed.utils import log_errors
from tornado.ioloop import PeriodicCallback

from pytest_schedprof.agent.choice import Choice, Untraced
from pytest_schedprof.agent.monitoring import Monitor, monitoring


class Ticking:
    """Notes the trace function of each call, as stealing is called: by a decorated method."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def note(self) -> None:
        self.seen.append(sys.gettrace())

    @log_errors
    def left_out(self) -> None:
        self.note()

    def counted(self) -> None:
        self.note()

    def failing(self) -> None:
        raise ArithmeticError


def tracer(frame: FrameType, event: str, argument: Any) -> None:
    """Trace nothing."""


@pytest.fixture
def traced() -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(tracer)
    yield
    sys.settrace(before)


def callbacks_of(ticking: Ticking) -> list[PeriodicCallback]:
    return [
        PeriodicCallback(each, 1000)
        for each in (ticking.left_out, ticking.counted, ticking.failing)
    ]


CODES = {
    id(Ticking.left_out.__wrapped__.__code__),  # type: ignore[attr-defined]
    id(Ticking.failing.__code__),
}


@pytest.mark.usefixtures("traced")
def test_what_is_left_out_runs_untraced() -> None:
    ticking = Ticking()
    callbacks = callbacks_of(ticking)
    untraced = Untraced(callbacks, CODES)
    untraced.begin()
    for each in callbacks[:2]:
        each.callback()
    with pytest.raises(ArithmeticError):
        callbacks[2].callback()
    assert sys.gettrace() is tracer
    untraced.end()
    callbacks[0].callback()
    assert ticking.seen == [None, tracer, tracer]


def test_callbacks_are_put_back() -> None:
    callbacks = callbacks_of(Ticking())
    before = [each.callback for each in callbacks]
    untraced = Untraced(callbacks, CODES)
    untraced.begin()
    assert [each.callback == its for each, its in zip(callbacks, before, strict=True)] == [
        False,
        True,
        False,
    ]
    untraced.end()
    assert [each.callback for each in callbacks] == before


@pytest.mark.skipif(monitoring() is None, reason="sys.monitoring is new in Python 3.12")
def test_what_is_left_out_has_no_events() -> None:
    ticking = Ticking()
    left_out, counted, failing = callbacks_of(ticking)
    own = [Ticking.left_out.__wrapped__.__code__, Ticking.failing.__code__]  # type: ignore[attr-defined]
    monitor = Monitor(
        Choice([__name__]), own, bytecodes=True, periodic=[left_out, counted, failing]
    )
    assert monitor.begin()
    try:
        for _ in range(3):
            left_out.callback()
            with pytest.raises(ArithmeticError):
                failing.callback()
            counted.callback()
    finally:
        monitor.end()
    assert len(ticking.seen) == 6
    assert monitor.calls_of(Ticking.note.__code__) == 3  # each of them calls it
    assert monitor.calls_of(Ticking.counted.__code__) == 3
