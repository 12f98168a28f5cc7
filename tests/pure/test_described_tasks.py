"""Tests of tasks as short text: whatever they hold, the text is short and shows no data."""

from __future__ import annotations

from functools import partial
from operator import add
from typing import Any

import pytest

from pytest_schedprof.evidence.local import described


class Held:
    """An argument whose representation would be large."""

    def __repr__(self) -> str:
        raise AssertionError("it is not asked")


class Task:
    """What dask calls a task: a function with arguments."""

    def __init__(self, function: Any, *args: Any, **keywords: Any) -> None:
        self.func, self.args, self.kwargs = function, args, keywords


class TaskRef:
    """What stands for another task."""

    def __init__(self, key: object) -> None:
        self.key = key


class List:
    """What dask makes of a list that holds such."""

    def __init__(self, *args: object) -> None:
        self.args = args


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ((add, 1, "x"), "add(1, 'x')"),
        (Task(add, TaskRef("y-1"), 2.5, axis=None), "add('y-1', 2.5, axis=None)"),
        (Task(sum, [1, TaskRef(("y", 0))]), "sum([1, ('y', 0)])"),
        (Task(sum, List((1, 2), TaskRef("y"))), "sum([(1, 2), 'y'])"),
        (Task(sum, list(range(99))), "sum([0, 1, 2, 3, 4, 5, ...])"),
        (Task(partial(add, 1), Held()), "add(Held)"),
        (Task(max, *range(9)), "max(0, 1, 2, 3, 4, 5, ...)"),
        (Task(map, add, dict), "map(add, dict)"),
        ((1, 2), "(1, 2)"),
        (b"x" * 10**6, "bytes"),
        (Held(), "Held"),
        (None, "None"),
    ],
)
def test_a_task_is_a_call(task: object, text: str) -> None:
    assert described(task) == text


def test_long_texts_are_cut() -> None:
    assert len(described((add, "x" * 10**6, 10**300))) < 100
