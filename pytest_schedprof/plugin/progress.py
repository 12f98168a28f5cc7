"""A progress line on the terminal, below the line that pytest is writing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TextIO

import pytest
from dask.callbacks import Callback
from dask.diagnostics.progress import ProgressBar

from pytest_schedprof.measuring.plan import BodyRun
from pytest_schedprof.measuring.profiling import Schedule
from pytest_schedprof.measuring.sides import Side
from pytest_schedprof.plugin.stash import IN_DEBUGGER, TERMINAL
from pytest_schedprof.report.results import Progress, progress_text

UPDATE_S = 2.0
"""Seconds between updates of the line."""

SAVE, RESTORE, DOWN, UP, ERASE = "\x1b7", "\x1b8", "\x1b[B\r", "\x1b[A", "\x1b[K"
"""Terminal control sequences for the cursor."""


def showing(config: pytest.Config, schedule: Schedule) -> Generator[tuple[BodyRun, Side]]:
    """Yield each run of the body, and show a line about it for as long as it takes.

    The line asks the scheduler nothing meanwhile. If the scheduler is in this process the line is
    not even updated: that would be a part of what is measured.
    """
    line = _Line(config)
    try:
        for body_run, side in schedule.body_runs():
            progress = replace(schedule.progress, side=side.name)
            line.show(progress_text(progress))
            with nullcontext() if side.is_in_process else line.going_on(progress):
                yield body_run, side
    finally:
        line.clear()


class _Line:
    """The progress line; it stays silent where it could disturb the terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        # Other reporters than pytest's own may use the line below. It is known by its module's
        # name, because not all releases of pytest export the class.
        is_own = type(reporter).__module__ == "_pytest.terminal"
        self._writer = reporter and reporter._tw
        is_silent = not (is_own and self._writer.hasmarkup) or _is_shared(config)
        self._terminal = None if is_silent else _terminal(config, self._writer._file)
        self._is_shown = False

    @contextmanager
    def going_on(self, progress: Progress) -> Iterator[None]:
        """Update the line every few seconds with the duration of the run."""
        if self._terminal is None:
            yield
            return
        ended, start = threading.Event(), time.monotonic()

        def tell() -> None:
            while not ended.wait(UPDATE_S):
                self.show(progress_text(replace(progress, lasts_s=time.monotonic() - start)))

        clock = threading.Thread(target=tell, daemon=True)
        clock.start()
        try:
            yield
        finally:
            ended.set()
            clock.join()

    def show(self, text: str) -> None:
        """Write the text below pytest's line and move the cursor back to it."""
        if self._terminal is None or not text:
            return
        column = self._writer.width_of_current_line + 1
        columns = self._writer.fullwidth - 1
        below = f"\n{UP}\x1b[{column}G"  # scrolls if this is the last line
        self._write(f"{below}{SAVE}{DOWN}{text[:columns]}{ERASE}{RESTORE}")
        self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            self._write(f"{SAVE}{DOWN}{ERASE}{RESTORE}")
            self._is_shown = False

    def _write(self, text: str) -> None:
        """Write to the terminal directly: pytest's writer would count the text as its line."""
        try:
            if self._terminal is not None and not self._config.stash.get(IN_DEBUGGER, False):
                self._terminal.write(text)
                self._terminal.flush()
        except OSError:  # the terminal is gone, which must not fail the test
            self._terminal = None


class BarFile:
    """A file for dask's progress bar, which draws from its own thread while the body runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._line = _Line(config)

    def write(self, text: str) -> None:
        """Show the bar as it is now; dask ends it with a newline, which clears the line."""
        if text.strip():
            self._line.show(text.strip())
        else:
            self._line.clear()

    def flush(self) -> None:
        """Do nothing: each write is flushed."""


def _terminal(config: pytest.Config, file: TextIO) -> TextIO | None:
    """Open the terminal on a separate descriptor, because the body's output is captured.

    Return None if the file is not a terminal: `--color=yes` forces markup on pipes too.
    """
    if TERMINAL not in config.stash:
        config.stash[TERMINAL] = None
        capture: Any = config.pluginmanager.get_plugin("capturemanager")
        if capture is not None:
            with capture.global_and_fixture_disabled():
                if file.isatty():
                    number = os.dup(file.fileno())
                    opened = open(number, "w", encoding=file.encoding)  # noqa: SIM115
                    config.add_cleanup(opened.close)
                    config.stash[TERMINAL] = opened
    return config.stash[TERMINAL]


def _is_shared(config: pytest.Config) -> bool:
    """Whether the test or its log writes to the same terminal."""
    shows_output = config.getoption("capture", None) in ("no", "tee-sys")
    if shows_output or config.getoption("log_cli_level", None):
        return True
    try:
        return bool(config.getini("log_cli"))
    except ValueError:  # the logging plugin is disabled
        return False


def callbacks_of(config: pytest.Config) -> Sequence[Callback]:
    """Return the callbacks for dask's local schedulers; if verbose also dask's progress bar."""
    callbacks = [
        callback for callbacks in config.hook.pytest_schedprof_callbacks() for callback in callbacks
    ]
    if config.get_verbosity() >= 1:
        callbacks.append(ProgressBar(out=BarFile(config)))
    return callbacks
