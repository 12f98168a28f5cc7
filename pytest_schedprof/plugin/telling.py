"""Lines on the terminal in the middle of a test."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any

import pytest

from pytest_schedprof.errors import printable


def tell_at_once(config: pytest.Config, text: str) -> None:
    """Write a line to the terminal now, although the test's output is captured.

    Nothing is written without pytest's terminal, as in a worker of pytest-xdist.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None:
        return
    shown = capture.global_and_fixture_disabled() if capture is not None else nullcontext()
    with shown, suppress(OSError):  # a terminal that is gone must not fail the test
        reporter.ensure_newline()
        reporter.write_line(printable(f"schedprof: {text}"), yellow=True)
