"""A line on the terminal that says how far a test is, below the one that pytest is writing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from pytest_schedprof.reports.progress import Progress, progress_text

if TYPE_CHECKING:
    from pytest_schedprof.plan import Take
    from pytest_schedprof.profiling import ProfiledTest
    from pytest_schedprof.sides import Side

EVERY_S = 2.0

TERMINAL = pytest.StashKey["TextIO | None"]()

IN_DEBUGGER = pytest.StashKey[bool]()
"""Whether the terminal is that of somebody who types."""

SAVE, RESTORE, DOWN, UP, ERASE = "\x1b7", "\x1b8", "\x1b[B\r", "\x1b[A", "\x1b[K"


def showing(config: pytest.Config, profiled: ProfiledTest) -> Generator[tuple[Take, Side]]:
    """Each run of the body, with a line about it for as long as it takes.

    Nobody is asked meanwhile, and where the scheduler is in this very process nothing is done at
    all: it would be a part of what is measured.
    """
    line = _Line(config)
    try:
        for take in profiled.takes():
            progress = profiled.progress()
            line.show(progress_text(progress))
            with nullcontext() if profiled.is_in_process else line.going_on(progress):
                yield take
    finally:
        line.clear()


class _Line:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        is_silent = not self._is_pytests_own or _is_shared(config)
        self._terminal = None if is_silent else _terminal(config)
        self._is_shown = False

    @property
    def _is_pytests_own(self) -> bool:
        """Other reporters may have drawn a line there."""
        is_own = type(self._reporter).__module__ == "_pytest.terminal"  # only later ones export it
        return is_own and bool(self._writer.hasmarkup)

    @property
    def _writer(self) -> Any:
        return self._reporter._tw

    @contextmanager
    def going_on(self, progress: Progress) -> Iterator[None]:
        """Tell every few seconds how long it lasts."""
        if self._terminal is None:
            yield
            return
        ended, begun = threading.Event(), time.monotonic()

        def tell() -> None:
            while not ended.wait(EVERY_S):
                self.show(progress_text(replace(progress, lasts_s=time.monotonic() - begun)))

        clock = threading.Thread(target=tell, daemon=True)
        clock.start()
        try:
            yield
        finally:
            ended.set()
            clock.join()

    def show(self, text: str) -> None:
        """Below the line that is being written, to which the cursor returns."""
        if self._terminal is None or not text:
            return
        column = self._writer.width_of_current_line + 1
        room = self._writer.fullwidth - 1
        below = f"\n{UP}\x1b[{column}G"  # which scrolls, where there is no line below
        self._write(f"{below}{SAVE}{DOWN}{text[:room]}{ERASE}{RESTORE}")
        self._is_shown = True

    def clear(self) -> None:
        """Leave nothing of it."""
        if self._is_shown:
            self._write(f"{SAVE}{DOWN}{ERASE}{RESTORE}")
            self._is_shown = False

    def _write(self, text: str) -> None:
        """To the terminal itself: the writer would take it for a part of its line."""
        try:
            if self._terminal is not None and not self._config.stash.get(IN_DEBUGGER, False):
                self._terminal.write(text)
                self._terminal.flush()
        except OSError:  # it is gone, which is no matter of the test's
            self._terminal = None


class BarFile:
    """For dask's progress bar, which draws from a thread of its own while the body runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._line = _Line(config)

    def write(self, text: str) -> None:
        """The bar as it is now; the last thing that dask writes is the end of its line."""
        if text.strip():
            self._line.show(text.strip())
        else:
            self._line.clear()

    def flush(self) -> None:
        """Each write is flushed."""


def _terminal(config: pytest.Config) -> TextIO | None:
    """A descriptor of our own: the body's output is captured while the line is written."""
    if TERMINAL not in config.stash:
        config.stash[TERMINAL] = None
        capture: Any = config.pluginmanager.get_plugin("capturemanager")
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        if capture is not None:
            with capture.global_and_fixture_disabled():
                config.stash[TERMINAL] = _duplicate(config, reporter._tw._file)
    return config.stash[TERMINAL]


def _duplicate(config: pytest.Config, file: TextIO) -> TextIO | None:
    """None of what is no terminal: markup may be forced there too."""
    if not file.isatty():
        return None
    opened = open(os.dup(file.fileno()), "w", encoding=file.encoding)  # noqa: SIM115
    config.add_cleanup(opened.close)
    return opened


def _is_shared(config: pytest.Config) -> bool:
    """Whether the test itself, or its log, writes to the terminal."""
    shows_output = config.getoption("capture", None) in ("no", "tee-sys")
    if shows_output or config.getoption("log_cli_level", None):
        return True
    try:
        return bool(config.getini("log_cli"))
    except ValueError:  # the plugin that has it was left out
        return False
