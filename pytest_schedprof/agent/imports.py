"""Imports the test's module on the scheduler before its functions arrive there."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any


def import_early(name: str, dask_scheduler: Any = None) -> None:
    """Import a module, or leave it if that is not possible: the test may need no function of it.

    A module that skips its tests raises no `Exception`.
    """
    with suppress(BaseException):
        importlib.import_module(name)
