"""Select tests of distributed's own suite, mark them, and write down how each of them ended.

A plugin for the sessions of `dasks_tests.py`, which passes an `Order` in the environment.
"""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ORDER = "SCHEDPROF_ORDER"
"""Environment variable with the order as JSON."""

FEW = 20
"""One test whose cluster is a fixture is selected for so many others."""

PHASES = ("passed", "skipped", "failed")
"""Outcomes of a test's phases; the last of them that occurs is the outcome of the test."""


class Order(NamedTuple):
    """What a session is to do."""

    results: str
    """File that gets a line for each test."""
    seconds: float
    """Time after which no further test begins."""
    most: int
    """Number of tests to select if `chosen` is empty."""
    chosen: list[str]
    """IDs of the tests to run."""
    backend: str
    """Backend of the marker; empty to leave the tests unmarked."""


class Ending(NamedTuple):
    """How a test ended."""

    test_id: str
    outcome: str
    seconds: float
    text: str
    """Why it failed."""


def read_endings(path: Path) -> dict[str, Ending]:
    """Return how the tests of a session ended, by ID."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {ending.test_id: ending for ending in (Ending(*json.loads(line)) for line in lines)}


def pytest_configure(config: pytest.Config) -> None:
    order = Order(*json.loads(os.environ[ORDER]))
    config.pluginmanager.register(Session(order), "schedprof-order")


class Session:
    """Carries out the order."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.deadline = float("inf")

    def pytest_collection_finish(self) -> None:
        self.deadline = time.monotonic() + self.order.seconds

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = self._chosen(items)
        for item in items if self.order.backend else ():
            item.add_marker(pytest.mark.schedprof(backend=self.order.backend))

    def _chosen(self, items: list[pytest.Item]) -> list[pytest.Item]:
        if self.order.chosen:
            return [item for item in items if item.nodeid in {*self.order.chosen}]
        wrapped = [item for item in items if is_wrapped(item)]
        elsewhere = [item for item in items if not is_wrapped(item) and uses_fixture(item)]
        most = self.order.most
        return [*spread(wrapped, most), *spread(elsewhere, most // FEW)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.reports: list[pytest.TestReport] = []
        start = time.perf_counter()
        done = yield
        ending = ending_of(item.nodeid, self.reports, time.perf_counter() - start)
        with open(self.order.results, "a") as file:
            print(json.dumps(ending), file=file)
        if time.monotonic() > self.deadline:
            item.session.shouldstop = "the time is up"
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)


def is_wrapped(item: pytest.Item) -> bool:
    """Whether `gen_cluster` or `gen_test` wraps the test, so that its cluster is in process."""
    function = getattr(item, "obj", None)
    inside = inspect.unwrap(function) if callable(function) else None
    return inside is not function and inspect.iscoroutinefunction(inside)


def uses_fixture(item: pytest.Item) -> bool:
    """Whether a fixture of distributed starts a cluster or an event loop for the test."""
    return "loop" in getattr(item, "fixturenames", ())


def spread(items: list[pytest.Item], most: int) -> Iterator[pytest.Item]:
    """Yield so many of the items, evenly spread over all."""
    number = min(most, len(items))
    return (items[index * len(items) // number] for index in range(number))


def ending_of(test_id: str, reports: list[pytest.TestReport], seconds: float) -> Ending:
    """Return the ending of a test by the reports of its phases."""
    worst = max(reports, key=lambda report: PHASES.index(report.outcome))
    return Ending(test_id, worst.outcome, seconds, str(worst.longrepr or ""))
