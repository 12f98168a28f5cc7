"""Tests of periodic callbacks that run as if no one counted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event
from types import FrameType
from typing import Any

import pytest
from distributed.utils import log_errors
from tornado.ioloop import PeriodicCallback

from pytest_schedprof.agent.choice import Choice, untrace
from pytest_schedprof.agent.counts import COUNTER
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


def callbacks_of(ticking: Ticking) -> list[PeriodicCallback]:
    return [
        PeriodicCallback(method, 1000)
        for method in (ticking.left_out, ticking.counted, ticking.failing)
    ]


CODES = {
    id(Ticking.left_out.__wrapped__.__code__),  # type: ignore[attr-defined]
    id(Ticking.failing.__code__),
}


def test_what_is_left_out_runs_untraced_until_callbacks_are_put_back() -> None:
    ticking = Ticking()
    callbacks, former = callbacks_of(ticking), sys.gettrace()
    before = [periodic.callback for periodic in callbacks]
    sys.settrace(tracer)
    try:
        with ExitStack() as undo:
            untrace(callbacks, CODES, undo)
            assert callbacks[1].callback == before[1]
            for periodic in callbacks[:2]:
                periodic.callback()
            with pytest.raises(ArithmeticError):
                callbacks[2].callback()
            assert sys.gettrace() is tracer
        callbacks[0].callback()
    finally:
        sys.settrace(former)
    assert ticking.seen == [None, tracer, tracer]
    assert [periodic.callback for periodic in callbacks] == before


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


async def left_out() -> None:
    for _ in range(2):
        await asyncio.sleep(0)
        of_left_out()


def of_left_out() -> None:
    """Be called by what is left out."""


async def work() -> None:
    for _ in range(4):
        of_work()
        await asyncio.sleep(0)


def of_work() -> None:
    """Be called by another task of the event loop."""


async def both() -> None:
    await asyncio.gather(left_out(), work())


@pytest.mark.parametrize("bytecodes", [True, False])
def test_what_runs_while_a_coroutine_that_is_left_out_waits_is_counted(bytecodes: bool) -> None:
    counter = COUNTER(Choice([__name__]), [left_out.__code__], bytecodes=bytecodes)
    assert counter.begin()
    try:
        asyncio.run(both())
    finally:
        counter.end()
    codes = (left_out, of_left_out, work, of_work)
    assert [counter.calls_of(function.__code__) for function in codes] == [0, 0, 1, 4]


def left_out_until(begun: Event, over: Event) -> None:
    begun.set()
    assert over.wait(200)


def handling() -> None:
    for _ in range(3):
        with suppress(ArithmeticError):
            Ticking().failing()


def on_every_thread(function: Callable[[], None]) -> None:
    """Count on threads that start from now on; no other runs."""


@pytest.mark.parametrize("bytecodes", [True, False])
def test_what_another_thread_leaves_out_stops_no_count_of_this_one(bytecodes: bool) -> None:
    counts = []
    for is_beside in (False, True):
        begun, over = Event(), Event()
        counter = COUNTER(
            Choice([__name__]),
            [left_out_until.__code__],
            bytecodes=bytecodes,
            others=on_every_thread,
        )
        assert counter.begin()
        try:
            with ThreadPoolExecutor() as pool:
                beside = pool.submit(left_out_until, begun, over)
                if not is_beside:
                    over.set()
                    beside.result()
                assert begun.wait(200)
                handling()
                over.set()
        finally:
            counter.end()
        codes = (handling.__code__, Ticking.failing.__code__)
        counts.append([(counter.calls_of(code), counter.bytecodes_of(code)) for code in codes])
    assert counts[0] == counts[1]
    assert [calls for calls, _ in counts[1]] == [1, 3]
