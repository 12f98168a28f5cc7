"""Whether dask's client here gets on with a scheduler of another release."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dask.delayed import delayed

from pytest_schedprof.clusters.control import Line
from pytest_schedprof.clusters.quiet import any_versions, muted
from pytest_schedprof.clusters.reachability import version_differences
from pytest_schedprof.errors import ClusterError

TRIAL_S = 15.0


def require_understanding(address: str, security: Any, name: str, timeout_s: float) -> None:
    """Have it compute something: to connect is no proof, for what graphs are made of changes.

    Args:
        address: of the scheduler.
        security: for TLS.
        name: that messages call its interpreter by.
        timeout_s: for the connection.

    Raises:
        ClusterError: with the versions of both sides.
    """
    try:
        with muted("distributed.client"):
            _try(address, security, timeout_s)
    except Exception as error:  # whatever comes of words that are not understood
        told = version_differences(address, security) or ("both sides say the same versions",)
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ClusterError(
            f"schedprof: dask's client here does not get on with the scheduler of {name!r} "
            f"({words}): {'; '.join(told)}; choose a release nearer to this side's, or "
            "compare two runs, each made in its own environment (schedprof compare)"
        ) from error


def _try(address: str, security: Any, timeout_s: float) -> None:
    with any_versions():
        line: Any = Line(
            address,
            security=security,
            set_as_default=False,
            timeout=timeout_s,
            name="schedprof-trial",
        )
    try:
        parts = [delayed(len)((each,), pure=True) for each in range(2)]
        for asked in (line.submit(len, (1,)), line.compute(delayed(sum)([*parts, 1]))):
            line.sync(line.unless_broken, asked._result, callback_timeout=TRIAL_S)
    finally:
        with suppress(OSError, TimeoutError):
            line.close(timeout=2)
