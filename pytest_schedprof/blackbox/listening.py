"""Hears of exceptions: what fails in the scheduler's loop is logged, and nothing else is told."""

from __future__ import annotations

import logging
from collections.abc import Callable

OTHERS = ("tornado.application", "asyncio")
"""Loggers that tell of callbacks and coroutines that failed."""

MOST = 300
"""Characters of a message that are kept."""


class Listener(logging.Filter):
    """Sees records of errors that have a traceback, and lets all pass.

    A handler would be heard by all loggers below, but to a logger that has none it would be the
    first, and the records would not be shown any more.
    """

    def __init__(self, told: Callable[[str], None]) -> None:
        super().__init__()
        self.told = told
        self.loggers: list[logging.Logger] = []

    def begin(self) -> None:
        """Listen to all loggers of distributed that there are."""
        names = [each for each in logging.root.manager.loggerDict if each.startswith("distributed")]
        self.loggers = [logging.getLogger(name) for name in (*names, *OTHERS)]
        for each in self.loggers:
            each.addFilter(self)

    def end(self) -> None:
        """Listen no more."""
        for each in self.loggers:
            each.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell of an exception."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if record.levelno >= logging.ERROR and error is not None:
            self.told(f"{type(error).__name__}: {' '.join(str(error).split())}"[:MOST])
        return True
