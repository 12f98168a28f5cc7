"""Tests of the lock in which the test's thread waits for a virtual cluster."""

from __future__ import annotations

import threading

import pytest

from pytest_schedprof.virtual.blocked import Waiter


def test_who_was_woken_waits_no_longer_though_it_holds_the_lock() -> None:
    waiter = Waiter()
    assert waiter.locked()
    waiter.release()
    assert not waiter.locked()
    assert waiter.acquire()
    assert not waiter.locked()


def test_nobody_wakes_it() -> None:
    waiter = Waiter()
    assert not waiter.acquire(0.01)
    assert waiter.locked()


def test_a_condition_wakes_it_and_may_do_so_twice() -> None:
    """A `notify` that was interrupted finds the lock released already."""
    waiter, condition = Waiter(), threading.Condition()
    condition._waiters.append(waiter)  # type: ignore[attr-defined]
    with condition:
        condition.notify()
    assert waiter.acquire(0)
    assert not waiter.locked()
    waiter.release()
    with pytest.raises(RuntimeError):
        waiter.release()
