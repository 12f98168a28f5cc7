"""Callbacks of dask's local schedulers: those of the user's conftest, and a bar under -v."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_schedprof.progress import BarFile

if TYPE_CHECKING:
    from dask.callbacks import Callback


def callbacks_of(config: pytest.Config) -> Sequence[Callback]:
    """For one test."""
    found = [each for given in config.hook.pytest_schedprof_callbacks() for each in given]
    return [*found, *_bar(config)]


def _bar(config: pytest.Config) -> list[Callback]:
    """Below pytest's own line on a terminal; on a pipe it would be noise."""
    if config.get_verbosity() < 1:
        return []
    from dask.diagnostics.progress import ProgressBar

    return [ProgressBar(out=BarFile(config))]
