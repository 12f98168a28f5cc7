"""Hooks that a user's conftest or another plugin may implement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dask.callbacks import Callback

    from pytest_schedprof.backends.contract import BackendFactory


def pytest_schedprof_backends() -> Mapping[str, BackendFactory]:  # type: ignore[empty-body]
    """Add backends: a mapping of names to factories, see `backends/contract.py`.

    A backend added here gets options, artifacts, limits and reports like a built-in one.
    It wins over a built-in one of the same name.
    """


def pytest_schedprof_callbacks() -> Iterable[Callback]:  # type: ignore[empty-body]
    """Add callbacks of dask's local schedulers, for tests with the evidence `local`.

    They are registered while the body of a test runs. Those with a `visualize`, as dask's own
    profilers have it, get a plot in the page.
    """
