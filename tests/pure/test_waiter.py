"""Tests of the lock in which the test's thread waits for a virtual cluster."""

from __future__ import annotations

import threading

import pytest

from pytest_schedprof.virtual.waiter import Waiter


def test_it_is_held_until_it_is_released_and_never_again() -> None:
    """Also when the thread that waited has got the lock, which then is locked for all others."""
    waiter = Waiter()
    assert waiter.is_held()
    thread = threading.Thread(target=waiter.acquire, args=(-1,))
    thread.start()
    waiter.release()
    assert not waiter.is_held()
    thread.join()
    assert not waiter.is_held()


def test_time_runs_out_while_nobody_releases_it() -> None:
    waiter = Waiter()
    assert not waiter.acquire(0.001)
    assert waiter.is_held()


def test_a_second_release_is_an_error_as_that_of_any_lock() -> None:
    waiter = Waiter()
    waiter.release()
    with pytest.raises(RuntimeError, match="unlocked"):
        waiter.release()
