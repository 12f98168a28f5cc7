"""The statement of a test that raised an error, and what lets the test wait before it.

If the statement then passes, the test had looked too early.
"""

from __future__ import annotations

import ast
import asyncio
import sys
from asyncio import tasks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from pytest_schedprof.virtual.relay import NS, Relay


class Statement(NamedTuple):
    """Lines of a test, from the first of a statement to that which raised an error."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"line {self.first} of {Path(self.file).name}"

    def has(self, line: int) -> bool:
        return self.first <= line <= self.last


def statement_of(error: BaseException, file: str) -> Statement | None:
    """Return the statement of a file that raised an error itself; None if a call of it did."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename != file:
        return None
    line = trace.tb_lineno
    nodes = ast.walk(ast.parse(Path(file).read_bytes()))
    around = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return Statement(file, max(around, default=line), line)


@contextmanager
def calling_before(statement: Statement, call: Callable[[], None]) -> Iterator[None]:
    """Call whenever this thread comes to a statement."""

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != statement.file:
            return None
        line = 0

        def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal line
            if event == "line":
                is_new = statement.has(frame.f_lineno) and not statement.has(line)
                line = frame.f_lineno
                if is_new:
                    call()
            return trace_line

        return trace_line

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        yield
    finally:
        sys.settrace(before)


def let_pass_a_second(relay: Relay) -> None:
    """Let all others go on for a second: other threads, and other tasks of this one's loop."""
    until = relay.now + NS
    loop: Any = asyncio._get_running_loop()
    if loop is None:
        while relay.now < until:
            relay.wait(until)
        return
    task, rest = asyncio.current_task(loop), len(loop._ready)
    if task is not None:
        tasks._leave_task(loop, task)
    try:
        loop.call_later(1, bool)
        while relay.now < until:
            loop._run_once()
    finally:
        if task is not None:
            tasks._enter_task(loop, task)
    # The round in which this happens has counted its handles, and takes as many.
    for _ in range(rest - len(loop._ready)):
        loop.call_soon(bool)
