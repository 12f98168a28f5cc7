"""Without distributed's own warnings and tracebacks: what they say is told in words, elsewhere."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from distributed.versions import VersionMismatchWarning


@contextmanager
def any_versions() -> Iterator[None]:
    """Versions that differ are told with the results; a warning would fail a strict suite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        yield


@contextmanager
def muted(name: str) -> Iterator[None]:
    """Without a logger's tracebacks: what is wrong with a scheduler is told in words."""

    def nothing(record: logging.LogRecord) -> bool:
        return False

    logger = logging.getLogger(name)
    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)
