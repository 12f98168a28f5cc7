"""Turns off distributed's warnings and tracebacks where this package reports the problem."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from distributed.versions import VersionMismatchWarning


@contextmanager
def any_versions() -> Iterator[None]:
    """Ignore warnings of differing versions: results report them, and `-W error` would fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        yield


@contextmanager
def muted(name: str) -> Iterator[None]:
    """Silence a logger, whose tracebacks repeat what an error message says."""

    def nothing(record: logging.LogRecord) -> bool:
        return False

    logger = logging.getLogger(name)
    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)
