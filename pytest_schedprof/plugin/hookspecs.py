"""Hooks that a user's conftest or another plugin may implement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dask.callbacks import Callback

    from pytest_schedprof.backends.contract import BackendFactory
    from pytest_schedprof.evidence.contract import Kind


def pytest_schedprof_backends() -> Mapping[str, BackendFactory]:  # type: ignore[empty-body]
    """Add backends: a mapping of names to factories, see `backends/contract.py`.

    A backend added here gets options, artifacts, limits and reports like a built-in one.
    It wins over a built-in one of the same name.
    """


def pytest_schedprof_evidence() -> Iterable[type[Kind]]:  # type: ignore[empty-body]
    """Add kinds of evidence: subclasses of `Kind`, see `evidence/contract.py`.

    A kind added here is asked for by its name like a built-in one, and `all` includes it. It wins
    over a built-in one of the same name.
    """


def pytest_schedprof_callbacks() -> Iterable[Callback]:  # type: ignore[empty-body]
    """Add callbacks of dask's local schedulers, for tests with the evidence `local`.

    They are registered while the body of a test runs. Those with a `visualize` method, like dask's
    own profilers, get a plot on the page.
    """
