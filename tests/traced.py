"""Measures which lines run in pytest's own process during a part of the tests, for `.ci/coverage`.

A plugin of the suite. conftest.py imports it first: what is imported earlier is not measured.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from importlib import import_module
from typing import Any

import pytest

TRACED = (
    "tests/pure",
    "tests/record",
    "tests/virtual",
    "tests/api/test_profile.py",
    "tests/cli/test_commands_of_a_run.py",
    "tests/cli/test_history.py",
    "tests/environments/test_environments.py",
    "tests/evidence/test_kinds.py",
    "tests/evidence/test_local.py",
    "tests/evidence/test_workers_doings.py",
    "tests/plugin/test_bad_input.py",
)
"""Tests that are measured: most of what they run is run in pytest's own process.

A tracer in every test would disturb what the tests measure, and before Python 3.12 the backend
`counts` needs the place that coverage's tracer takes.
"""


TRACER: Any = None
if "COVERAGE_OF_TESTS" in os.environ:
    # By name: it is no dependency of the tests, and mypy would take benchmarks/coverage.py for it.
    TRACER = import_module("coverage").Coverage(data_suffix=True)
    TRACER.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Stop measuring for a test that is not to be measured."""
    if TRACER is None:
        return (yield)
    if item.nodeid.startswith(TRACED):
        result = yield
        if nextitem is None or not nextitem.nodeid.startswith(TRACED):
            # A measured coroutine that is thrown away once coverage has stopped takes the trace
            # function from the thread in which that happens, and so from the backend `counts`.
            gc.collect()
        return result
    TRACER.stop()
    try:
        return (yield)
    finally:
        TRACER.start()


def pytest_unconfigure() -> None:
    """Keep what was measured."""
    if TRACER is not None:
        TRACER.stop()
        TRACER.save()
